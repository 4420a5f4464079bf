/* cell_record.c - creates state entries, and stores how a cell ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"

#define RECORD_VERSION 6
#define RECORD_BEFORE 5                 /* the format without `left_out` */
#define RECORD_OLDEST 4                 /* the format without `left_out` and `lost` */

/* Create the entry, with STATE locked from here on.  Until the entry is locked or marked it looks
 * like a leftover, so processes that clear leftovers have to wait. */
static int
make_entry(int state, const char *id, const char *name, bool keep, struct err *err)
{
	OWN(closep) int dir = -1;
	char entry[CELL_ENTRY_MAX];

	snprintf(entry, sizeof(entry), "%s.%s", id, name);
	(void)flock(state, LOCK_SH);
	if (mkdirat(state, entry, 0700 | (keep ? CELL_KEPT : 0)) < 0)
		return errno != EEXIST ? err_errno(err, "cannot make the cell's state folder") :
		       err_set(err, EEXIST, "there was a cell '%s' already: choose another id, or "
		               "`cloister discard %s`", id, id);
	dir = openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "cannot open the cell's state folder");
	return TAKE_FD(dir);
}

int
cell_state_make(const struct cell_spec *spec, int *ret_dir, struct err *err)
{
	OWN(closep) int state = cell_state_open(true, err);
	OWN(closep) int dir = -1;

	if (state < 0)
		return state;
	dir = make_entry(state, spec->id, spec->name, spec->keep, err);
	if (dir < 0)
		return dir;
	/* A process that checks whether it is live holds the lock for a moment: see
	 * cell_state_is_live(). */
	while (flock(dir, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot lock the cell's state folder");
	*ret_dir = TAKE_FD(dir);
	return 0;
}

int
cell_state_bury(const char *id, struct err *err)
{
	OWN(closep) int state = cell_state_open(true, err);
	OWN(closep) int dir = -1;

	if (state < 0)
		return state;
	dir = make_entry(state, id, "", true, err);
	return dir < 0 ? dir : 0;
}

bool
cell_state_is_kept(int dir)
{
	struct stat st;

	/* Keep an entry that cannot be examined. */
	return fstat(dir, &st) < 0 || (st.st_mode & CELL_KEPT) != 0;
}

bool
cell_state_is_live(int dir)
{
	if (flock(dir, LOCK_SH | LOCK_NB) < 0)
		return true;
	flock(dir, LOCK_UN);
	return false;
}

int
cell_state_remove(int state, const char *entry, struct err *err)
{
	OWN(closep) int dir = openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);
	int r;

	if (dir < 0 && errno == ENOENT)
		return 0;
	if (dir < 0)
		return err_errno(err, "cannot open the cell's state folder");
	if (faccessat(dir, CELL_EVENTS, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return cell_state_retire(state, entry, false, err);
	/* The record goes last: until then the entry can be removed again.  Without a record it is
	 * not kept, so a later run finishes this. */
	(void)fchmod(dir, 0700);
	r = tree_empty(dir, err);
	if (r < 0)
		return r;
	if (unlinkat(state, entry, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_errno(err, "cannot remove the cell's state folder");
	return 0;
}

int
cell_record_write(int state_dir, const struct cell_record *record, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(CELL_SPEC_MAX + 1024);
	OWN(closep) int fd = -1;
	int r;

	buf_put_u32(&b, RECORD_VERSION);
	cell_spec_put(&b, &record->spec);
	buf_put_u64(&b, record->started_ns);
	buf_put_u64(&b, record->ended_ns);
	buf_put_u32(&b, record->status);
	buf_put_str(&b, record->cause);
	buf_put_u32(&b, record->n_changes);
	buf_put_str(&b, record->incomplete);
	buf_put_u32(&b, record->end);
	buf_put_u32(&b, record->cut);
	buf_put_u32(&b, record->lost);
	for (size_t i = 0; i < record->spec.n_grants; i++)
		buf_put_u32(&b, record->left_out[i]);
	if (buf_failed(&b))
		return err_set(err, EFBIG, "the cell's record is too large");
	fd = openat(state_dir, "record.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot write the cell's record");
	r = write_all(fd, b.data, b.len, err);
	if (r < 0)
		return err_wrap(err, "the cell's record");
	if (renameat(state_dir, "record.new", state_dir, "record") < 0)
		return err_errno(err, "cannot write the cell's record");
	return 0;
}

/* Read the fields that later versions added. */
static int
get_newer(struct buf *b, uint32_t version, struct cell_record *record)
{
	int r = version >= RECORD_BEFORE ? buf_get_u32(b, &record->lost) : 0;

	for (size_t i = 0; r == 0 && version >= RECORD_VERSION && i < record->spec.n_grants; i++)
		r = buf_get_u32(b, &record->left_out[i]);
	return r;
}

static int
get_record(struct buf *b, struct cell_record *record, struct err *err)
{
	uint32_t version, end;
	const char *cause, *incomplete;
	int r;

	if (buf_get_u32(b, &version) < 0 || version < RECORD_OLDEST || version > RECORD_VERSION)
		return err_set(err, EBADMSG, "it is of another version of cloister");
	r = cell_spec_get(b, &record->spec, err);
	if (r < 0)
		return r;
	if (buf_get_u64(b, &record->started_ns) < 0 || buf_get_u64(b, &record->ended_ns) < 0 ||
	    buf_get_u32(b, &record->status) < 0 || buf_get_str(b, &cause) < 0 ||
	    buf_get_u32(b, &record->n_changes) < 0 ||
	    record->n_changes > CELL_GRANTS_MAX || buf_get_str(b, &incomplete) < 0 ||
	    buf_get_u32(b, &end) < 0 || end > CELL_END_BUDGET || buf_get_u32(b, &record->cut) < 0 ||
	    get_newer(b, version, record) < 0 || buf_left(b) != 0)
		return err_set(err, EBADMSG, "it is malformed");
	record->end = end;
	snprintf(record->cause, sizeof(record->cause), "%s", cause);
	snprintf(record->incomplete, sizeof(record->incomplete), "%s", incomplete);
	return 0;
}

int
cell_record_read(int state_dir, struct cell_record *ret_record, struct err *err)
{
	OWN(cell_record_free) struct cell_record record = {0};
	OWN(freep) char *text = NULL;
	struct buf b;
	size_t len;
	int r;

	r = read_file_at(state_dir, "record", CELL_SPEC_MAX + 1024, &text, &len, err);
	if (r < 0)
		return r;
	buf_init_borrowed(&b, text, len);
	r = get_record(&b, &record, err);
	if (r < 0) {
		(void)err_wrap(err, "the cell's record");
		return r;
	}
	*ret_record = record;
	record = (struct cell_record){0};
	return 0;
}

void
cell_record_free(struct cell_record *record)
{
	cell_spec_free(&record->spec);
}
