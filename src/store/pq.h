/* pq.h - libpq, loaded when a Postgres is wanted: most people have none, and its libraries for LDAP and
 * Kerberos would slow every command down.
 *
 * What is declared here is the interface of libpq.so.5, as its documentation has it. */
#ifndef CLOISTER_PQ_H
#define CLOISTER_PQ_H

struct err;
struct pg_conn;                         /* the library's */
struct pg_result;

enum { PQ_CONNECTED = 0 };              /* of status() */
enum { PQ_DONE = 1, PQ_ROWS = 2 };      /* of result_status() */
#define PQ_SQLSTATE 'C'                 /* a field of an error */

struct pq_option {
	char *keyword, *variable, *compiled, *value, *label, *display;
	int size;
};

struct pq_notice {
	char *channel;
	int pid;
	char *text;
	struct pq_notice *next;
};

struct pq {
	struct pg_conn *(*connect)(const char *const *words, const char *const *values, int first_is_url);
	void (*reset)(struct pg_conn *c);
	void (*finish)(struct pg_conn *c);
	int (*status)(const struct pg_conn *c);
	char *(*error)(const struct pg_conn *c);
	void (*(*on_notice)(struct pg_conn *c, void (*notice)(void *arg, const char *text), void *arg))
		(void *arg, const char *text);
	struct pq_option *(*parse)(const char *url, char **ret_error);
	void (*free_options)(struct pq_option *options);
	void (*free_text)(void *text);

	int (*socket)(const struct pg_conn *c);
	int (*read)(struct pg_conn *c);
	struct pq_notice *(*notice)(struct pg_conn *c);

	/* These return 0 if it could not be sent. */
	int (*send)(struct pg_conn *c, const char *sql);
	int (*prepare)(struct pg_conn *c, const char *name, const char *sql, int n, const unsigned *types);
	int (*send_prepared)(struct pg_conn *c, const char *name, int n, const char *const *values,
	                     const int *lengths, const int *formats, int format);
	int (*send_with)(struct pg_conn *c, const char *sql, int n, const unsigned *types,
	                 const char *const *values, const int *lengths, const int *formats, int format);
	int (*is_busy)(struct pg_conn *c);
	struct pg_result *(*result)(struct pg_conn *c);         /* NULL: no more */
	int (*result_status)(const struct pg_result *r);
	char *(*result_error)(const struct pg_result *r, int field);
	char *(*command)(struct pg_result *r);
	char *(*changed)(struct pg_result *r);
	int (*rows)(const struct pg_result *r);
	char *(*value)(const struct pg_result *r, int row, int column);
	int (*is_null)(const struct pg_result *r, int row, int column);
	void (*clear)(struct pg_result *r);
};

/* The library's functions, once it is loaded; -ENOENT: it is not installed. */
int pq_load(const struct pq **ret_pq, struct err *err);
#endif
