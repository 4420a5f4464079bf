/* hook_worker.c - one running program, or one connection to a service: a line in, a line out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/hook/hook.h"

static const char *
worker_name(const struct hook_worker *w)
{
	return w->hook->call->socket != NULL ? w->hook->call->socket : w->hook->call->argv[0];
}

/* ---- the end of a worker ---- */

static void
close_source(struct loop *loop, struct loop_source *source)
{
	if (source->fd < 0)
		return;
	loop_unwatch(loop, source);
	close(source->fd);
	source->fd = -1;
}

static void
worker_close(struct hook_worker *w)
{
	struct loop *loop = w->hook->pool->loop;

	loop_cancel_timer(loop, &w->idle);
	close_source(loop, &w->in);
	close_source(loop, &w->out);
}

static void
worker_remove(struct hook_worker *w)
{
	struct hook_worker **at = &w->hook->workers;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->hook->n_workers--;
	worker_close(w);
	close_source(w->hook->pool->loop, &w->exited);
	buf_free(&w->answer);
	free(w);
}

/* The question fails.  Without WHY, the worker's own end is the reason. */
static void
worker_fail(struct hook_worker *w, const char *why, int status)
{
	char text[512];

	if (w->question == NULL)
		return;
	if (why != NULL)
		snprintf(text, sizeof(text), "the hook '%.200s' %s", worker_name(w), why);
	else if (w->pid == 0)
		snprintf(text, sizeof(text), "the hook '%.200s' closed the connection before it answered",
		         worker_name(w));
	else
		snprintf(text, sizeof(text), "the hook '%.200s' ended with %s %d before it answered",
		         worker_name(w), WIFEXITED(status) ? "status" : "signal",
		         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	hook_question_answer(w->question, HOOK_FAILED, text);
}

void
hook_worker_end(struct hook_worker *w, const char *why)
{
	struct hook *hook = w->hook;

	if (why != NULL || w->pid == 0)
		worker_fail(w, why, 0);
	if (w->pid == 0) {
		worker_remove(w);
		hook_next(hook);
		return;
	}
	w->is_ending = true;
	worker_close(w);
	/* With all that it started and that did not leave its group. */
	kill(-w->pid, SIGKILL);
}

void
hook_worker_free(struct hook_worker *w)
{
	if (w->question != NULL) {
		w->question->answered = NULL;
		hook_question_answer(w->question, HOOK_FAILED, "");
	}
	if (w->pid > 0) {
		kill(-w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	worker_remove(w);
}

/* ---- answers ---- */

/* 0: nothing more for now.  1: the end.  -E2BIG: it is too long. */
static int
read_answer(struct hook_worker *w)
{
	char piece[4096];
	ssize_t n;

	for (;;) {
		n = read(w->out.fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return 1;
		buf_put(&w->answer, piece, (size_t)n);
		if (buf_failed(&w->answer))
			return -E2BIG;
	}
}

/* The reason why its output is not an answer; NULL if it is one, or may become one. */
static const char *
find_fault(const struct hook_worker *w, int r)
{
	const struct buf *a = &w->answer;
	const void *newline = a->len > 0 ? memchr(a->data, '\n', a->len) : NULL;

	if (a->len > 0 && !w->is_asked)
		return "answered before it had the whole question";
	if (r == -E2BIG)
		return "answered with too much: an answer is at most 32 KiB";
	if (newline != NULL && newline != a->data + a->len - 1)
		return "answered with more than one line";
	if (a->len > 0 && memchr(a->data, '\0', a->len) != NULL)
		return "answered with a zero byte";
	return newline == NULL ? NULL : policy_hook_stray((const char *)a->data, a->len, w->question->id);
}

/* False: the worker was ended. */
static bool
take_answer(struct hook_worker *w)
{
	struct buf *a = &w->answer;
	int r = read_answer(w);
	const char *fault = find_fault(w, r);

	if (fault != NULL) {
		hook_worker_end(w, fault);
		return false;
	}
	if (a->len > 0 && a->data[a->len - 1] == '\n') {
		a->data[a->len - 1] = '\0';
		w->is_asked = false;
		hook_question_answer(w->question, HOOK_ANSWERED, (char *)a->data);
		buf_reset(a);
		loop_set_timer(w->hook->pool->loop, &w->idle, w->hook->pool->idle_ms);
	}
	if (r != 0)
		hook_worker_end(w, NULL);
	return r == 0;
}

static void
out_ready(void *arg, uint32_t events)
{
	struct hook_worker *w = arg;
	struct hook *hook = w->hook;

	(void)events;
	if (take_answer(w) && w->question == NULL)
		hook_next(hook);
}

/* It may have answered just before its end. */
static void
program_exited(void *arg, uint32_t events)
{
	struct hook_worker *w = arg;
	struct hook *hook = w->hook;
	int status = 0;

	(void)events;
	if (!w->is_ending && take_answer(w))
		hook_worker_end(w, NULL);
	if (waitpid(w->pid, &status, WNOHANG) != w->pid)
		return;
	worker_fail(w, NULL, status);
	worker_remove(w);
	hook_next(hook);
}

/* ---- questions ---- */

static void
write_question(struct hook_worker *w)
{
	const struct buf *text = &w->question->text;

	while (w->written < text->len) {
		ssize_t n = write(w->in.fd, text->data + w->written, text->len - w->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			(void)loop_watch(w->hook->pool->loop, &w->in, EPOLLOUT, NULL);
			return;
		}
		if (n <= 0) {
			hook_worker_end(w, NULL);
			return;
		}
		w->written += (size_t)n;
	}
	(void)loop_watch(w->hook->pool->loop, &w->in, 0, NULL);
	w->is_asked = true;
	hook_question_forget_text(w->question);
}

static void
in_ready(void *arg, uint32_t events)
{
	(void)events;
	write_question(arg);
}

bool
hook_worker_is_free(struct hook_worker *w)
{
	return !w->is_ending && w->question == NULL && take_answer(w);
}

void
hook_worker_ask(struct hook_worker *w, struct hook_question *q)
{
	loop_cancel_timer(w->hook->pool->loop, &w->idle);
	w->question = q;
	w->written = 0;
	q->worker = w;
	q->next = NULL;
	write_question(w);
}

/* ---- the start of a worker ---- */

static void
idle_over(void *arg)
{
	hook_worker_end(arg, NULL);
}

static int
worker_watch(struct hook_worker *w, struct err *err)
{
	struct loop *loop = w->hook->pool->loop;
	int r = w->pid > 0 ? loop_watch(loop, &w->exited, EPOLLIN, err) : 0;

	return r < 0 ? r : loop_watch(loop, &w->out, EPOLLIN, err);
}

int
hook_worker_new(struct hook *hook, struct hook_worker **ret_worker, struct err *err)
{
	struct hook_worker *w = calloc(1, sizeof(*w));
	int r;

	if (w == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*w = (struct hook_worker){
		.hook = hook, .next = hook->workers, .idle = { .due = idle_over, .arg = w },
		.in = { .fd = -1, .ready = in_ready, .arg = w },
		.out = { .fd = -1, .ready = out_ready, .arg = w },
		.exited = { .fd = -1, .ready = program_exited, .arg = w },
	};
	buf_init(&w->answer, POLICY_HOOK_ANSWER_MAX);
	hook->workers = w;
	hook->n_workers++;
	r = hook->call->socket != NULL ? hook_connect(hook->call, &w->in.fd, &w->out.fd, err) :
	    hook_start_program(hook->call, &w->pid, &w->exited.fd, &w->in.fd, &w->out.fd, err);
	r = r < 0 ? r : worker_watch(w, err);
	if (r < 0) {
		hook_worker_free(w);
		return r;
	}
	*ret_worker = w;
	return 0;
}
