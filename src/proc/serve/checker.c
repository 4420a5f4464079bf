/* checker.c - see checker.h. */
#include "proc/serve/checker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit_request.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "canon/canon.h"
#include "loop/loop.h"
#include "proc/serve/api.h"

#define DETAIL_MAX 512
#define NICE 10

struct word {
	const char *state;              /* "checking": nothing is known yet */
	char detail[DETAIL_MAX];
	time_t at;
	uint64_t records, timelines;
};

struct checker {
	struct serve_job job;           /* first */
	struct api *api;
	struct word last;
	uint64_t version, began_ms, due_ms;
	bool busy;
	/* Used by the job while it runs. */
	struct word found;
	pthread_mutex_t lock;           /* protects what follows */
	pid_t child;                    /* 0: none */
	bool stopping;
};

/* ---- in a thread ---- */

static int
spawn(struct checker *c, int *ret_fd)
{
	char program[] = "cloister-audit", verb[] = "verify", flags[] = "-aj", format[] = "jsonl", key[] = "";
	char *const argv[] = { program, verb, flags, format, key, NULL };
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pthread_mutex_lock(&c->lock);
	pid = c->stopping ? -ECANCELED : spawn_start(&(struct spawn){ .argv = argv, .n_fds = 3,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { ends[1], STDOUT_FILENO },
		{ SPAWN_NULL, STDERR_FILENO } }, .flags = SPAWN_APART }, NULL, NULL);
	c->child = pid < 0 ? 0 : pid;
	pthread_mutex_unlock(&c->lock);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return pid;
	}
	(void)setpriority(PRIO_PROCESS, (id_t)pid, NICE);
	*ret_fd = ends[0];
	return 0;
}

static void
read_all(int fd, struct buf *out)
{
	char data[16 * 1024];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) != 0) {
		if (n < 0 && errno != EINTR)
			return;
		if (n > 0)
			buf_put(out, data, (size_t)n);
	}
}

/* Its exit status, or -1. */
static int
reap(struct checker *c)
{
	siginfo_t info;
	int status = 0;

	while (waitid(P_PID, (id_t)c->child, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	/* From here on its pid may belong to another process. */
	pthread_mutex_lock(&c->lock);
	(void)waitpid(c->child, &status, 0);
	c->child = 0;
	pthread_mutex_unlock(&c->lock);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
take_timelines(struct word *w, const json_t *timelines)
{
	const json_t *one;
	size_t i;

	json_array_foreach (timelines, i, one) {
		const json_t *finding = json_object_get(one, "finding");

		w->timelines++;
		w->records += (uint64_t)json_integer_value(json_object_get(one, "records"));
		if (!json_is_object(finding) || w->detail[0] != '\0')
			continue;
		snprintf(w->detail, sizeof(w->detail), "%s, record %lld: %s (%s)",
		         json_string_value(json_object_get(one, "timeline")),
		         (long long)json_integer_value(json_object_get(finding, "record")),
		         json_string_value(json_object_get(finding, "message")),
		         json_string_value(json_object_get(finding, "what")));
	}
}

static void
work(struct serve_job *job, void *own)
{
	struct checker *c = (struct checker *)job;
	struct word *w = &c->found;
	OWN(buf_free) struct buf out = BUF(CHECKER_ANSWER_MAX);
	json_t *said = NULL;
	int fd = -1, status = -1, r;

	(void)own;
	*w = (struct word){ .state = "checking" };
	r = spawn(c, &fd);
	if (r == 0) {
		read_all(fd, &out);
		close(fd);
		status = reap(c);
		said = buf_failed(&out) ? NULL : canon_value((char *)out.data, out.len);
	}
	if (said != NULL && (status == AUDIT_EXIT_SOUND || status == AUDIT_EXIT_FOUND)) {
		take_timelines(w, json_object_get(said, "timelines"));
		w->state = status == AUDIT_EXIT_SOUND ? "verified" : "broken";
	} else {
		snprintf(w->detail, sizeof(w->detail), "it could not be verified: `cloister audit verify "
		         "--all` shows why");
	}
	w->at = time(NULL);
	json_decref(said);
}

/* ---- in the loop ---- */

static void
done(struct serve_job *job)
{
	struct checker *c = (struct checker *)job;
	uint64_t now = loop_now_ms(), pause = (now - c->began_ms) * CHECKER_SHARE;

	c->busy = false;
	c->last = c->found;
	c->version++;
	c->due_ms = now + (pause > CHECKER_PAUSE_MS ? pause : CHECKER_PAUSE_MS);
}

static void
begin(struct checker *c)
{
	if (c->busy || c->api->stopping || loop_now_ms() < c->due_ms)
		return;
	c->busy = true;
	c->began_ms = loop_now_ms();
	serve_pool_add(c->api->pool, &c->job);
}

json_t *
checker_state(struct checker *c)
{
	const struct word *w = &c->last;

	begin(c);
	return json_pack("{s:s, s:o, s:I, s:I, s:s?}", "state", w->state, "at",
	                 w->at == 0 ? json_null() : json_integer((json_int_t)w->at), "records",
	                 (json_int_t)w->records, "timelines", (json_int_t)w->timelines, "detail",
	                 w->detail[0] != '\0' ? w->detail : NULL);
}

uint64_t
checker_version(const struct checker *c)
{
	return c->version;
}

int
checker_new(struct api *api, struct checker **ret_checker, struct err *err)
{
	struct checker *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*c = (struct checker){ .job = { .work = work, .done = done, .heavy = true }, .api = api,
	                       .last = { .state = "checking" }, .version = 1 };
	pthread_mutex_init(&c->lock, NULL);
	*ret_checker = c;
	return 0;
}

void
checker_stop(struct checker *c)
{
	if (c == NULL)
		return;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	if (c->child != 0)
		(void)kill(c->child, SIGKILL);
	pthread_mutex_unlock(&c->lock);
}

void
checker_free(struct checker *c)
{
	if (c == NULL)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c);
}
