/* server_program.h - which files of this machine the command of an MCP server names.
 *
 * FOLDER and HOME are the operator's, for relative paths: see policy_tools_path(). */
#ifndef CLOISTER_TOOLS_SERVER_PROGRAM_H
#define CLOISTER_TOOLS_SERVER_PROGRAM_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct policy_list;
struct policy_tools_server;

/* Its program, found as its cell finds it.  Of an interpreter, the script if the command names one; of a module, the
 * module.  *ret_word: the word of the command that is it; for a module, 0.  False: it is not on this machine, or not known. */
bool server_program_path(const struct policy_tools_server *server, const char *folder, const char *home, size_t *ret_word,
                         char ret_path[PATH_MAX]);
/* Its first word alone, links and all.  False: it is not on this machine, or an image has it. */
bool server_program_start(const struct policy_tools_server *server, const char *folder, const char *home,
                          char ret_path[PATH_MAX]);
/* Whether the command begins with an interpreter, whose other words may be scripts. */
bool server_program_is_run(const struct policy_tools_server *server);
/* Whether word I of the command is a file that the server's cell has, and that the server itself cannot write.  RET_PATH
 * has its links. */
bool server_program_file(const struct policy_tools_server *server, const char *folder, const char *home, size_t i,
                         char ret_path[PATH_MAX]);
/* Whether PATH, without links, is one of PATHS or beneath one. */
bool server_program_is_in(const struct policy_list *paths, const char *folder, const char *home, const char *path);
/* WORD of the command as a path without links; relative ones are in the server's folder.  The caller owns it; NULL: it is
 * none. */
char *server_program_find(const struct policy_tools_server *server, const char *folder, const char *home, const char *word);
#endif
