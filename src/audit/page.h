/* page.h - a page of a timeline: a range of its records, backwards from the newest or forwards from
 * a given one, optionally filtered by type, by process or by a word.
 *
 * Binary search finds the beginning, so that a long timeline costs no more than a short one.  A
 * filter reads all records, up to AUDIT_PAGE_SCAN bytes. */
#ifndef CLOISTER_AUDIT_PAGE_H
#define CLOISTER_AUDIT_PAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define AUDIT_PAGE_MAX 1000             /* records */
#define AUDIT_PAGE_SCAN (256ull << 20)
#define AUDIT_PAGE_SEARCH_MAX 256       /* bytes of the search text */

struct audit_page {
	/* input: */
	bool is_after;                  /* those after AFTER, in their order; else the newest first */
	uint64_t after;
	uint64_t before;                /* only those before this one; 0: all */
	size_t limit;
	const char *types;              /* separated by commas; "refusal" is one, too; NULL: all */
	const char *search;             /* in their values, ignoring case; NULL: all */
	bool has_pid;                   /* only those of the process PID in the cell */
	uint64_t pid;
	/* Called for each; LINE is valid until the next call.  A negative errno ends the read. */
	int (*take)(void *arg, const char *line, size_t len);
	void *arg;
	/* result: */
	size_t n;
	bool more;                      /* there may be more after NEXT */
	uint64_t next;                  /* the last that was examined */
	/* private: */
	uint64_t scanned;
	char *low;                      /* room for a line in lower case */
	char needle[AUDIT_PAGE_SEARCH_MAX + 1];
};

/* Records of the timeline NAME in DIR.  -ENOENT: there is none. */
int audit_page_read(struct audit_page *page, int dir, const char *name, struct err *err);

/* Whether this LINE, a record without its newline, matches the page's filters. */
bool audit_page_wants(struct audit_page *page, const char *line, size_t len);
/* The number of a record; 0 if it has none. */
uint64_t audit_page_number(const char *line, size_t len);
#endif
