/* notify_send.c - makes one try: runs a program with the message as its input, or calls a webhook. */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/version.h"
#include "proc/notify/notify.h"
#include "trust/trust.h"

/* ---- commands ---- */

static int
message_file(const struct notify_message *m, struct err *err)
{
	OWN(closep) int fd = memfd_create("message", MFD_CLOEXEC);

	if (fd < 0 || write_all(fd, m->body, m->len, err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot keep a message");
	return TAKE_FD(fd);
}

static pid_t
start_command(const char *program, const struct notify_target *t, const struct notify_message *m, int input,
              int *ret_pidfd, struct err *err)
{
	OWN(freep) char *event = str_format("CLOISTER_EVENT=%s", m->event);
	OWN(freep) char **env = event == NULL ? NULL : spawn_env((char *[]){ event, NULL });
	const struct spawn_fd fds[] = { { input, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO } };

	return env == NULL ? err_set(err, ENOMEM, "out of memory") :
	       spawn_start(&(struct spawn){ .argv = t->command, .path = program, .env = env,
	                   .cwd = trust_here() ? NULL : "/", .fds = fds, .n_fds = ARRAY_LEN(fds),
	                   .flags = SPAWN_APART | SPAWN_COMMAND }, ret_pidfd, err);
}

static int
run_command(const struct notify_target *t, const struct notify_message *m, struct err *err)
{
	OWN(closep) int input = message_file(m, err), pidfd = -1;
	struct pollfd over = { .events = POLLIN };
	char program[PATH_MAX];
	int status, r;
	pid_t pid;

	if (input < 0)
		return input;
	/* Checked each time: a cell may have been granted the path since. */
	r = trust_command(TRUST_NOTIFY_COMMAND, t->command, program, err);
	/* If it is missing, its start explains that. */
	if (r == 0 && access(program, F_OK) == 0)
		r = trust_program(program, err);
	if (r < 0)
		return r == -EPERM ? -ECANCELED : r;
	pid = start_command(program, t, m, input, &pidfd, err);
	if (pid < 0)
		return pid;
	over.fd = pidfd;
	if (poll(&over, 1, NOTIFY_COMMAND_S * 1000) == 0)
		kill(-pid, SIGKILL);
	status = spawn_await(pid, err);
	if (status <= 0)
		return status;
	return err_set(err, EIO, "'%.200s' ended with %s %d", t->command[0],
	               status < SPAWN_KILLED ? "status" : "signal", status % SPAWN_KILLED);
}

/* ---- webhooks ---- */

static size_t
ignore(char *data, size_t size, size_t n, void *arg)
{
	(void)data, (void)arg;
	return size * n;
}

static struct curl_slist *
add(struct curl_slist *list, const char *name, const char *value)
{
	OWN(freep) char *line = str_format("%s: %s", name, value);
	struct curl_slist *longer = line != NULL ? curl_slist_append(list, line) : NULL;

	if (longer == NULL)
		curl_slist_free_all(list);
	return longer;
}

static struct curl_slist *
make_head(const struct notify_target *t, const struct notify_message *m)
{
	uint64_t now = (uint64_t)time(NULL);
	char signature[NOTIFY_SIGNATURE_MAX], number[24];
	struct curl_slist *list;

	snprintf(number, sizeof(number), "%" PRIu64, now);
	notify_sign(t->secret, t->n_secret, m->id, now, m->body, m->len, signature);
	list = add(NULL, "content-type", "application/json");
	list = list != NULL ? add(list, "webhook-id", m->id) : NULL;
	list = list != NULL ? add(list, "webhook-timestamp", number) : NULL;
	return list != NULL ? add(list, "webhook-signature", signature) : NULL;
}

static void
set_up(CURL *curl, const struct notify_target *t, const struct notify_message *m,
       struct curl_slist *head)
{
	curl_easy_setopt(curl, CURLOPT_URL, t->webhook);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, head);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
	curl_easy_setopt(curl, CURLOPT_POST, 1L);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, m->body);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)m->len);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)NOTIFY_WEBHOOK_S);
}

static int
post(const struct notify_target *t, const struct notify_message *m, struct err *err)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *head = curl != NULL ? make_head(t, m) : NULL;
	CURLcode code = CURLE_OUT_OF_MEMORY;
	long status = 0;

	if (head != NULL) {
		set_up(curl, t, m, head);
		code = curl_easy_perform(curl);
		(void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	curl_slist_free_all(head);
	curl_easy_cleanup(curl);
	if (code == CURLE_OK && status / 100 == 2)
		return 0;
	if (code != CURLE_OK)
		return err_set(err, EIO, "%.200s: %s", t->webhook, curl_easy_strerror(code));
	/* 410 Gone: the receiver wants no more events. */
	(void)err_set(err, EIO, "%.200s answers with %ld", t->webhook, status);
	return status == 410 ? -ECANCELED : -EIO;
}

int
notify_send(const struct notify_target *target, const struct notify_message *message, struct err *err)
{
	return target->command != NULL ? run_command(target, message, err) : post(target, message, err);
}
