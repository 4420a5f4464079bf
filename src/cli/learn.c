/* learn.c - `cloister learn`: runs a command with everything allowed, and writes the policy that
 * allows what it did. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/call.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "cli/timeline.h"
#include "policy/policy_calls.h"
#include "policy/policy_suggest.h"

#define LEARN_FILE "cloister.yaml"
#define LEARN_TITLE_MAX 160             /* of the command, in the first comment */
#define LEARN_OPTIONS_MAX 64
#define LEARN_PLACES_MAX 8

struct learn {
	const char *file;
	bool force;
	/* the words of the `run` that is made of it */
	char **words;
	size_t n_words, cap_words;
	/* the recorded requests */
	struct timeline_event *events;
	struct policy_seen *seen;
	size_t n_seen, cap_seen;
	/* the calls that its processes made, if all of them were counted */
	unsigned char calls[CALL_NUMBERS_MAX / 8];
	bool has_calls, lost_calls;
	/* requests to addresses that are not public: "HOST:PORT", each once */
	char *places[LEARN_PLACES_MAX];
	size_t n_places;
	uint64_t n_refused;
};

const struct cli_option cli_learn_options[] = {
	{ "output", 'o', "FILE", "write the policy to FILE (cloister.yaml); - prints it",
	  CLI_TEXT(struct learn, file) },
	{ "force", 0, NULL, "replace FILE if it exists", CLI_FLAG(struct learn, force) },
	{0}
};

static void
learn_free(struct learn *learn)
{
	for (size_t i = 0; i < learn->n_words; i++)
		free(learn->words[i]);
	free(learn->words);
	for (size_t i = 0; i < learn->n_seen; i++)
		timeline_event_free(&learn->events[i]);
	free(learn->events);
	free(learn->seen);
	for (size_t i = 0; i < learn->n_places; i++)
		free(learn->places[i]);
}

/* The list owns WORD, also on failure. */
static int
add_word(struct learn *learn, char *word, struct err *err)
{
	if (word != NULL && learn->n_words + 1 >= learn->cap_words) {
		size_t cap = learn->cap_words == 0 ? 32 : learn->cap_words * 2;
		char **more = realloc(learn->words, cap * sizeof(*more));

		if (more != NULL) {
			learn->words = more;
			learn->cap_words = cap;
		}
	}
	if (word == NULL || learn->n_words + 1 >= learn->cap_words) {
		free(word);
		return err_set(err, ENOMEM, "out of memory");
	}
	learn->words[learn->n_words++] = word;
	learn->words[learn->n_words] = NULL;
	return 0;
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	/* --allow is accepted: it opens private addresses, which stay closed without a rule. */
	static const char *const senseless[] = { "policy", "detach" };
	struct learn *learn = arg;

	if (option->id < 0)             /* its own */
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(senseless); i++)
		if (strcmp(option->name, senseless[i]) == 0)
			return err_set(err, EINVAL, "`learn` allows everything and waits for the "
			               "command: remove --%s", option->name);
	return add_word(learn, value == NULL ? str_format("--%s", option->name) :
	                str_format("--%s=%s", option->name, value), err);
}

/* Walks the options of `learn` and of `run` together. */
static int
take_words(struct learn *learn, int argc, char **argv, struct err *err)
{
	struct cli_option all[LEARN_OPTIONS_MAX + 1] = {{0}};
	size_t n = 0;
	int rest = argc, r;

	for (const struct cli_option *o = cli_learn_options; o->name != NULL; o++)
		all[n++] = *o;
	for (const struct cli_option *o = cli_run_options; o->name != NULL && n < LEARN_OPTIONS_MAX;
	     o++)
		all[n++] = *o;
	r = add_word(learn, strdup("run"), err);
	/* An existing policy is the one about to be rewritten. */
	if (r == 0)
		r = add_word(learn, strdup("--no-policy"), err);
	if (r == 0)
		r = cli_parse(all, argc, argv, false, take_option, learn, &rest, err);
	if (r == 0)
		r = add_word(learn, strdup("--"), err);
	if (r == 0 && rest == argc)
		r = err_set(err, EINVAL, "no command is given: cloister learn [OPTION...] -- CMD...");
	for (; r == 0 && rest < argc; rest++)
		r = add_word(learn, strdup(argv[rest]), err);
	return r;
}

static bool
is_printed(const struct learn *learn)
{
	return strcmp(learn->file, "-") == 0;
}

/* Better now than after an hour of work. */
static int
check_file(const struct learn *learn, struct err *err)
{
	OWN(freep) char *path = strdup(learn->file);
	struct stat st;

	if (is_printed(learn))
		return 0;
	if (stat(learn->file, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "'%s' is a folder: name a file with -o", learn->file);
	if (!learn->force && lstat(learn->file, &st) == 0)
		return err_set(err, EEXIST, "'%s' exists: name another file with -o, or replace it with "
		               "--force", learn->file);
	if (path == NULL || access(dirname(path), W_OK) < 0)
		return err_errno(err, "cannot write '%s'", learn->file);
	return 0;
}

static pid_t cell_pid;

static void
pass_on(int signal)
{
	(void)kill(cell_pid, signal);
}

/* Forwards signals for the command to the supervisor; those of the terminal reach it directly. */
static void
take_signals(void)
{
	static const int passed[] = { SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction pass = { .sa_handler = pass_on, .sa_flags = SA_RESTART };

	(void)sigaction(SIGINT, &ignore, NULL);
	(void)sigaction(SIGQUIT, &ignore, NULL);
	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		(void)sigaction(passed[i], &pass, NULL);
}

static int
run_cell(const struct run *run, struct err *err)
{
	pid_t parent = getpid();
	int status;

	fflush(NULL);
	cell_pid = fork();
	if (cell_pid < 0)
		return err_errno(err, "cannot start a supervisor");
	if (cell_pid == 0) {
		int r;

		/* As with `run`: if this process is killed, so is the cell. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(CLI_FAILED);
		r = run_start(run, err);
		_exit(r < 0 ? cli_fail(err) : r);
	}
	take_signals();
	while (waitpid(cell_pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot wait for the cell");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The list owns the event, also on failure. */
static int
add_seen(struct learn *learn, struct timeline_event *e, struct err *err)
{
	if (learn->n_seen == learn->cap_seen && learn->cap_seen < POLICY_SEEN_MAX) {
		size_t cap = learn->cap_seen == 0 ? 256 : learn->cap_seen * 2;
		struct timeline_event *events = realloc(learn->events, cap * sizeof(*events));
		struct policy_seen *seen;

		learn->events = events != NULL ? events : learn->events;
		seen = events == NULL ? NULL : realloc(learn->seen, cap * sizeof(*seen));
		if (seen != NULL) {
			learn->seen = seen;
			learn->cap_seen = cap;
		}
	}
	if (learn->n_seen == learn->cap_seen) {
		timeline_event_free(e);
		return err_set(err, ENOMEM, "the command made too many requests to learn from");
	}
	learn->events[learn->n_seen] = *e;
	timeline_get_seen(e, &learn->seen[learn->n_seen]);
	learn->n_seen++;
	return 0;
}

/* A record of calls has "read 100" for each. */
static void
add_calls(struct learn *learn, const struct timeline_event *e)
{
	const json_t *counts = json_object_get(e->json, "counts"), *one;
	char name[64];
	size_t i;
	int nr;

	json_array_foreach(counts, i, one) {
		const char *text = json_is_string(one) ? json_string_value(one) : "";

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
		nr = call_number(CALL_ARCH_HERE, name);
		if (nr >= 0 && nr < CALL_NUMBERS_MAX)
			call_set_add(learn->calls, (uint32_t)nr);
		learn->has_calls = true;
	}
}

/* Anything that was lost may have been a call that is in no other record. */
static void
look_at_calls(struct learn *learn, const struct timeline_event *e)
{
	if (strcmp(e->type, "calls") == 0)
		add_calls(learn, e);
	else if (strcmp(e->type, "lost") == 0)
		learn->lost_calls = true;
}

static bool
proposes_calls(const struct learn *learn)
{
	return learn->has_calls && !learn->lost_calls;
}

/* `learn` opens public addresses alone. */
static void
note_private(struct learn *learn, const struct timeline_event *e)
{
	char *place;

	if (!timeline_is_refusal(e) || strcmp(e->why, "private-address") != 0 || e->host[0] == '\0' || e->port == 0)
		return;
	learn->n_refused += e->count > 0 ? e->count : 1;
	place = str_format("%s:%u", e->host, e->port);
	for (size_t i = 0; place != NULL && i < learn->n_places; i++)
		if (strcmp(learn->places[i], place) == 0) {
			free(place);
			return;
		}
	if (place == NULL || learn->n_places == LEARN_PLACES_MAX)
		free(place);
	else
		learn->places[learn->n_places++] = place;
}

static int
read_events(struct learn *learn, const char *cell, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	struct timeline_event e;
	int r = timeline_open(cell, &t, err);

	/* Nothing was recorded, so nothing is kept. */
	if (r == -ENOENT)
		return 0;
	while (r == 0 && (r = timeline_next(&t, &e, err)) > 0) {
		r = 0;
		look_at_calls(learn, &e);
		/* A name that does not exist is a mistake, and needs no rule.  A request that was
		 * refused only for its body needs one. */
		if ((!timeline_is_refusal(&e) || strcmp(e.why, "secret") == 0) && strcmp(e.type, "dns") != 0 &&
		    strcmp(e.type, "ssh") != 0 && strcmp(e.type, "intent") != 0 && e.host[0] != '\0' &&
		    strcmp(e.why, "unresolved") != 0)
			r = add_seen(learn, &e, err);
		else {
			note_private(learn, &e);
			timeline_event_free(&e);
		}
	}
	return r;
}

/* The command as one line of a comment. */
static void
make_title(const struct learn *learn, char title[LEARN_TITLE_MAX + 64])
{
	size_t n = (size_t)snprintf(title, LEARN_TITLE_MAX, "written by `cloister learn");
	bool command = false;

	for (size_t i = 1; i < learn->n_words && n < LEARN_TITLE_MAX; i++) {
		command |= strcmp(learn->words[i], "--") == 0;
		if (command)
			n += (size_t)snprintf(title + n, LEARN_TITLE_MAX - n, " %s", learn->words[i]);
	}
	if (n >= LEARN_TITLE_MAX)
		snprintf(title + LEARN_TITLE_MAX - 5, 5, " ...");
	for (char *c = title; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	memcpy(title + strlen(title), "`", sizeof("`"));
}

/* Writes all of it or nothing, and replaces a file only with --force. */
static int
write_file(const struct learn *learn, const char *text, struct err *err)
{
	OWN(freep) char *aside = str_format("%s.%d", learn->file, (int)getpid());
	OWN(closep) int fd = -1;
	int r;

	if (aside == NULL)
		return err_set(err, ENOMEM, "out of memory");
	fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_errno(err, "cannot write '%s'", learn->file);
	r = write_all(fd, text, strlen(text), err);
	if (r < 0)
		(void)err_wrap(err, "'%s'", learn->file);
	if (r == 0 && (learn->force ? rename(aside, learn->file) : link(aside, learn->file)) < 0)
		r = err_errno(err, "cannot write '%s'", learn->file);
	if (r < 0 || !learn->force)
		(void)unlink(aside);
	return r;
}

/* `cloister policy check` must accept the new policy. */
static int
check_policy(const struct learn *learn, struct err *err)
{
	OWN(policy_freep) struct policy *policy = NULL;
	struct policy_limits limits;
	int r = policy_load_file(AT_FDCWD, learn->file, NULL, &policy, &limits, err);

	return r < 0 ? err_wrap(err, "the learned policy does not pass `policy check`") : 0;
}

/* Appends the calls that were made, as a list of one's own. */
static int
put_calls(const struct learn *learn, char **text, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX);
	size_t column = 0;

	buf_put_text(&b, *text);
	buf_put_text(&b, "syscalls:\n  # Every call that was made.  Other input, and newer programs, may need more.\n  allow: [");
	for (uint32_t nr = 0; nr < CALL_NUMBERS_MAX; nr++) {
		const char *name = call_name(CALL_ARCH_HERE, nr);

		if (name == NULL || (!call_set_has(learn->calls, nr) && !policy_call_is_needed(name)))
			continue;
		buf_put_text(&b, column == 0 ? "" : column > 80 ? ",\n    " : ", ");
		column = column > 80 ? 4 : column;
		buf_put_text(&b, name);
		column += strlen(name) + 2;
	}
	buf_put(&b, "]\n", sizeof("]\n"));
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the policy is too large");
	free(*text);
	*text = (char *)b.data;
	buf_init(&b, 0);
	return 0;
}

static int
write_policy(struct learn *learn, struct err *err)
{
	OWN(freep) char *text = NULL;
	char title[LEARN_TITLE_MAX + 64];
	int r;

	make_title(learn, title);
	r = policy_write_for(learn->seen, learn->n_seen, title, &text, err);
	if (r == 0 && proposes_calls(learn))
		r = put_calls(learn, &text, err);
	if (r == 0 && is_printed(learn)) {
		fputs(text, stdout);
		return 0;
	}
	if (r == 0)
		r = write_file(learn, text, err);
	return r < 0 ? r : check_policy(learn, err);
}

/* Names the places that were refused, as options. */
static void
tell_private(const struct learn *learn)
{
	fprintf(stderr, "cloister: %llu %s to addresses that are not public refused: to learn them, use `cloister learn",
	        (unsigned long long)learn->n_refused, learn->n_refused == 1 ? "request was" : "requests were");
	for (size_t i = 0; i < learn->n_places; i++) {
		fputs(" --allow ", stderr);
		text_print_safe(stderr, learn->places[i], strlen(learn->places[i]), false);
	}
	fputs(" -- CMD`\n", stderr);
}

/* The secrets that the command had, since the policy does not give them. */
static void
tell_secrets(const struct learn *learn)
{
	static const char option[] = "--secret=";

	for (size_t i = 1; i < learn->n_words && strcmp(learn->words[i], "--") != 0; i++)
		if (strncmp(learn->words[i], option, sizeof(option) - 1) == 0) {
			fputs(" -s ", stderr);
			text_print_safe(stderr, learn->words[i] + sizeof(option) - 1, strlen(learn->words[i]) - sizeof(option) + 1,
			                false);
		}
}

static void
tell(const struct learn *learn)
{
	fprintf(stderr, "cloister: learned from %zu %s", learn->n_seen,
	        learn->n_seen == 1 ? "request" : "requests");
	if (is_printed(learn)) {
		fputc('\n', stderr);
		return;
	}
	fputs("; '", stderr);
	text_print_safe(stderr, learn->file, strlen(learn->file), false);
	fputs("' allows requests like these, and nothing else\n", stderr);
	fprintf(stderr, "cloister: read it, narrow it, then: cloister run -p ");
	text_print_safe(stderr, learn->file, strlen(learn->file), false);
	tell_secrets(learn);
	fputs(" -- CMD\n", stderr);
}

int
cmd_learn(int argc, char **argv)
{
	OWN(learn_free) struct learn learn = { .file = LEARN_FILE };
	OWN(run_free) struct run run = { .learn = true };
	struct err err = {0};
	int status, r;

	r = take_words(&learn, argc, argv, &err);
	if (r == 0)
		r = check_file(&learn, &err);
	if (r == 0)
		r = run_describe((int)learn.n_words, learn.words, &run, &err);
	if (r != 0)
		return r < 0 ? cli_fail(&err) : r;
	if (!run.spec.quiet)
		fputs("cloister: learning: everything public is allowed, and recorded\n", stderr);
	status = run_cell(&run, &err);
	if (status < 0)
		return cli_fail(&err);
	if (read_events(&learn, run.spec.id, &err) < 0)
		return cli_fail(&err);
	if (learn.n_refused > 0)
		tell_private(&learn);
	if (learn.n_seen == 0 && !proposes_calls(&learn)) {
		if (!run.spec.quiet)
			fputs("cloister: the command reached nothing, so no policy is written\n", stderr);
		return learn.n_refused > 0 && status == 0 ? CLI_FAILED : status;
	}
	if (write_policy(&learn, &err) < 0)
		return cli_fail(&err);
	if (!run.spec.quiet)
		tell(&learn);
	return status;
}
