/* asan_options.c - what the sanitized executables are told.
 *
 * A helper starts with an empty environment, so ASAN_OPTIONS cannot reach it.
 * The leak sanitizer traces its own process, which the walls rightly refuse.  Signals
 * and the limit on core files are left as they are: pid 1 of a cell must have no
 * handler that the agent could reach, and no limit but its own. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "detect_leaks=0:exitcode=86:disable_coredump=0:"
	       "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0";
}
