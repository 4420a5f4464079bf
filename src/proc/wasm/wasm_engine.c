/* wasm_engine.c - runs a module in JavaScriptCore.
 *
 * The engine is looked up when the program runs, so that cloister can be built and installed without it.  Its C
 * interface has been stable since 2008: these are the declarations of what is used of it. */
#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/wasm/wasm.h"

__asm__(".section .rodata.wasi, \"a\"\n"
        ".globl wasm_wasi\n"
        "wasm_wasi:\n"
        ".incbin \"src/proc/wasm/wasi.js\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char wasm_wasi[];

typedef struct engine_context *context_ref;
typedef struct engine_value *value_ref;
typedef struct engine_text *text_ref;
typedef value_ref called(context_ref c, value_ref function, value_ref self, size_t n, const value_ref *at,
                         value_ref *exception);

#define FUNCTIONS(X) \
	X(JSGlobalContextCreate, context_ref, (void *class)) \
	X(JSGlobalContextRelease, void, (context_ref c)) \
	X(JSStringCreateWithUTF8CString, text_ref, (const char *text)) \
	X(JSStringGetUTF8CString, size_t, (text_ref text, char *to, size_t size)) \
	X(JSStringRelease, void, (text_ref text)) \
	X(JSEvaluateScript, value_ref, (context_ref c, text_ref script, value_ref self, text_ref source, int line, \
	                                value_ref *exception)) \
	X(JSObjectCallAsFunction, value_ref, (context_ref c, value_ref function, value_ref self, size_t n, \
	                                      const value_ref *at, value_ref *exception)) \
	X(JSObjectMakeFunctionWithCallback, value_ref, (context_ref c, text_ref name, called *function)) \
	X(JSObjectMakeArrayBufferWithBytesNoCopy, value_ref, (context_ref c, void *bytes, size_t n, \
	                                                      void (*release)(void *, void *), void *arg, \
	                                                      value_ref *exception)) \
	X(JSValueMakeNumber, value_ref, (context_ref c, double n)) \
	X(JSValueMakeString, value_ref, (context_ref c, text_ref text)) \
	X(JSValueToNumber, double, (context_ref c, value_ref value, value_ref *exception)) \
	X(JSValueToStringCopy, text_ref, (context_ref c, value_ref value, value_ref *exception))

#define DECLARE(name, type, args) static type (*name) args;
FUNCTIONS(DECLARE)

static context_ref first;               /* for the next run */

/* The two builds of one engine; the distributions have the first, or both. */
static const char *const libraries[] = { "libjavascriptcoregtk-4.1.so.0", "libjavascriptcoregtk-6.0.so.1" };

int
wasm_engine_load(struct err *err)
{
	static const struct { const char *name; void *at; } functions[] = {
#define ENTRY(name, type, args) { #name, (void *)&name },
		FUNCTIONS(ENTRY)
	};
	void *library = NULL, *found;

	for (size_t i = 0; library == NULL && i < ARRAY_LEN(libraries); i++)
		library = dlopen(libraries[i], RTLD_LAZY);
	if (library == NULL)
		return err_set(err, ENOENT, "WASM modules need the package libjavascriptcoregtk-4.1-0");
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		found = dlsym(library, functions[i].name);
		if (found == NULL)
			return err_set(err, ENOENT, "libjavascriptcoregtk has no %s", functions[i].name);
		memcpy(functions[i].at, &found, sizeof(found));
	}
	/* It reads files of /proc when it begins. */
	first = JSGlobalContextCreate(NULL);
	return 0;
}

/* ---- one run ---- */

static value_ref
system_call(context_ref c, value_ref function, value_ref self, size_t n, const value_ref *at, value_ref *exception)
{
	double numbers[WASM_NUMBERS_MAX + 1] = {0};

	(void)function, (void)self;
	for (size_t i = 0; i < n && i < ARRAY_LEN(numbers); i++)
		numbers[i] = JSValueToNumber(c, at[i], exception);
	/* The first is one of ours: wasi.js has no other. */
	return JSValueMakeNumber(c, wasm_calls[(size_t)numbers[0]].run(numbers + 1));
}

/* What wasi.js needs to know, as JSON. */
static char *
about(const char *const *argv)
{
	OWN(json_decrefp) json_t *calls = json_array(), *args = json_array(), *env = json_array(), *all;
	char *text;

	for (const struct wasm_call *call = wasm_calls; call->name != NULL; call++)
		json_array_append_new(calls, json_string(call->name));
	for (; *argv != NULL; argv++)
		json_array_append_new(args, json_string(*argv));
	/* What is no UTF-8 cannot be passed, and is left out. */
	for (char **e = environ; *e != NULL; e++)
		json_array_append_new(env, json_string(*e));
	all = json_pack("{s:O, s:O, s:O}", "calls", calls, "argv", args, "env", env);
	text = all != NULL ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	return text;
}

static value_ref
text_value(context_ref c, const char *text)
{
	text_ref copy = JSStringCreateWithUTF8CString(text);
	value_ref value = JSValueMakeString(c, copy);

	JSStringRelease(copy);
	return value;
}

static value_ref
evaluate(context_ref c, const char *script, value_ref *exception)
{
	text_ref text = JSStringCreateWithUTF8CString(script);
	value_ref value = JSEvaluateScript(c, text, NULL, NULL, 1, exception);

	JSStringRelease(text);
	return value;
}

static int
describe(context_ref c, value_ref exception, struct err *err)
{
	text_ref text = JSValueToStringCopy(c, exception, NULL);
	char why[512] = "it failed";

	if (text != NULL) {
		(void)JSStringGetUTF8CString(text, why, sizeof(why));
		JSStringRelease(text);
	}
	return err_set(err, EFAULT, "the module was ended: %s", why);
}

int
wasm_engine_run(const struct buf *module, const char *const *argv, int *ret_status, struct err *err)
{
	OWN(freep) char *facts = about(argv);
	context_ref c = first != NULL ? TAKE(first) : JSGlobalContextCreate(NULL);
	value_ref exception = NULL, function, status = NULL, args[4];
	text_ref name = JSStringCreateWithUTF8CString("host");
	int r = 0;

	function = evaluate(c, wasm_wasi, &exception);
	args[0] = JSObjectMakeFunctionWithCallback(c, name, system_call);
	args[1] = JSObjectMakeArrayBufferWithBytesNoCopy(c, wasm_area, sizeof(wasm_area), NULL, NULL, &exception);
	args[2] = JSObjectMakeArrayBufferWithBytesNoCopy(c, module->data, module->len, NULL, NULL, &exception);
	args[3] = text_value(c, facts != NULL ? facts : "");
	if (exception == NULL)
		status = JSObjectCallAsFunction(c, function, NULL, ARRAY_LEN(args), args, &exception);
	if (exception != NULL)
		r = describe(c, exception, err);
	else
		*ret_status = (int)JSValueToNumber(c, status, NULL);
	JSStringRelease(name);
	JSGlobalContextRelease(c);
	return r;
}
