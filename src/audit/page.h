/* page.h - a page of a timeline: some of its records, from the newest back or from one on, those only
 * that are of some types or have a word in them.
 *
 * Where to begin is found by halving, so that a long timeline costs no more than a short one; what
 * is searched for is looked for in all of it, up to AUDIT_PAGE_SCAN bytes. */
#ifndef CLOISTER_AUDIT_PAGE_H
#define CLOISTER_AUDIT_PAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define AUDIT_PAGE_MAX 1000             /* records */
#define AUDIT_PAGE_SCAN (256ull << 20)
#define AUDIT_PAGE_SEARCH_MAX 256       /* bytes of what is searched for */

struct audit_page {
	/* given: */
	bool is_after;                  /* those behind AFTER, in their order; else the newest first */
	uint64_t after;
	uint64_t before;                /* only those before this one; 0: all */
	size_t limit;
	const char *types;              /* with commas between; "refusal" is one, too; NULL: all */
	const char *search;             /* in their values, in any case of letters; NULL: all */
	/* Each, until the next call; a negative errno ends it all. */
	int (*take)(void *arg, const char *line, size_t len);
	void *arg;
	/* found: */
	size_t n;
	bool more;                      /* there may be more behind NEXT */
	uint64_t next;                  /* the last that was looked at */
	/* private: */
	uint64_t scanned;
	char *low;                      /* room for a line in lower case */
	char needle[AUDIT_PAGE_SEARCH_MAX + 1];
};

/* Records of the timeline NAME in DIR.  -ENOENT: there is none. */
int audit_page_read(struct audit_page *page, int dir, const char *name, struct err *err);

/* Whether the page has a place for this LINE: a record without its newline. */
bool audit_page_wants(struct audit_page *page, const char *line, size_t len);
/* The number of a record; 0 if it has none. */
uint64_t audit_page_number(const char *line, size_t len);
#endif
