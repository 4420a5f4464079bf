/* server_wasm.h - the words of the `cloister run` that starts the cell of a WASI module. */
#ifndef CLOISTER_TOOLS_SERVER_WASM_H
#define CLOISTER_TOOLS_SERVER_WASM_H
#include <limits.h>

struct err;
struct policy_tools_server;
struct words;

/* Behind the name of a module's file: what it answers to tools/list. */
#define SERVER_WASM_TOOLS ".json"

/* The path of the module: the operator's file, or that of a capability, which matches its hash.  FOLDER and HOME are for
 * relative paths. */
int server_wasm_find(const struct policy_tools_server *server, const char *folder, const char *home,
                     char ret_path[PATH_MAX], struct err *err);
/* Append the grants of cloister-wasm, the module and its list of tools, and then the command: the last words.  The
 * module finds the folders of `folder`, `read` and `write` that the cell has.  COPY: the module's bytes; NULL: the module. */
int server_wasm_words(const struct policy_tools_server *server, const char *folder, const char *home, const char *copy,
                      struct words *w, struct err *err);
#endif
