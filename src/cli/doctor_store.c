/* doctor_store.c - see doctor.h: whether the places that CLOISTER_STORE and CLOISTER_BLOBS name can be used. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/findings.h"
#include "cli/doctor.h"
#include "registry/registry_look.h"
#include "store/s3_place.h"

#define SAID_MAX (16 * 1024)

/* Runs a helper to its end.  *ret_said: all that it printed, or NULL.  Returns its status, or -1. */
static int
ask(char *const argv[], char **ret_said)
{
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = spawn_start(&(struct spawn){ .argv = argv, .n_fds = 3, .flags = SPAWN_DIES | SPAWN_ONLY,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { ends[1], STDOUT_FILENO },
		                            { ends[1], STDERR_FILENO } } }, NULL, NULL);
	close(ends[1]);
	if (pid > 0)
		(void)read_open(ends[0], argv[0], SAID_MAX, ret_said, NULL, NULL);
	close(ends[0]);
	status = pid > 0 ? spawn_await(pid, NULL) : -1;
	return status;
}

/* The first line of an error that a helper has printed. */
static const char *
error_of(char *said, const char *otherwise)
{
	static const char prefix[] = "cloister: ";
	char *text = said;

	if (text == NULL || *text == '\0')
		return otherwise;
	text += strncmp(text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* ---- the registry ---- */

/* A line of registry_look(): state, name, finding and advice, with tabs between them. */
static void
take_line(struct findings *f, char *line)
{
	static const char *const states[] = { [FINDING_OK] = "ok", [FINDING_LIMITED] = "limited", [FINDING_MISSING] = "missing" };
	static const char *const names[] = { REGISTRY_LOOK_NAMES };
	const char *state = strsep(&line, "\t"), *name = strsep(&line, "\t"), *found = strsep(&line, "\t");

	for (size_t i = 0; found != NULL && i < ARRAY_LEN(names); i++)
		for (size_t k = 0; k < ARRAY_LEN(states); k++)
			if (strcmp(name, names[i]) == 0 && strcmp(state, states[k]) == 0)
				findings_advise(findings_add(f, names[i], (enum finding_state)k, "%s", found), "%s", line != NULL ? line : "");
}

void
doctor_store(struct findings *f)
{
	char *argv[] = { (char[]){ "cloister-registry" }, (char[]){ "doctor" }, (char[]){ "--store" }, (char[]){ "--" }, NULL };
	const char *store = getenv(REGISTRY_STORE);
	OWN(freep) char *said = NULL;
	size_t before = f->n;
	int status;

	if (store == NULL || *store == '\0')
		return;
	status = ask(argv, &said);
	for (char *rest = status == 0 ? said : NULL, *line; f->n < before + REGISTRY_LOOK_MAX && (line = strsep(&rest, "\n")) != NULL; )
		take_line(f, line);
	if (f->n == before)
		findings_advise(findings_add(f, REGISTRY_LOOK_STORE, FINDING_MISSING, "%s", error_of(said, "cloister-registry does not start")),
		                "docs/store.md explains " REGISTRY_STORE);
}

/* ---- blobs ---- */

/* cloister-blobs puts one empty object, and removes it. */
void
doctor_blobs(struct findings *f)
{
	char *argv[] = { (char[]){ "cloister-blobs" }, (char[]){ "--check" }, NULL };
	const char *place = getenv(S3_VARIABLE);
	OWN(freep) char *said = NULL;
	const char *text;
	int status;

	if (place == NULL || *place == '\0')
		return;
	status = ask(argv, &said);
	text = error_of(said, "cloister-blobs does not start");
	if (status == 0)
		findings_add(f, "blobs", FINDING_OK, "%s can be read and written", text);
	else
		findings_advise(findings_add(f, "blobs", FINDING_MISSING, "%s", text), "docs/store.md explains " S3_VARIABLE);
}
