/* tools_module.c - a WASI module for the tests of WASM tools: what it does is its first argument, and how is on standard
 * input, in JSON without escapes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char input[1 << 20];

/* The text of the member NAME of the input, or "". */
static const char *
member(const char *name)
{
	char key[64];
	char *at, *end, *copy;

	snprintf(key, sizeof(key), "\"%s\":\"", name);
	at = strstr(input, key);
	if (at == NULL || (end = strchr(at + strlen(key), '"')) == NULL)
		return "";
	copy = strndup(at + strlen(key), (size_t)(end - at) - strlen(key));
	return copy;
}

static int
fails(const char *what)
{
	printf("%s: %s", what, strerror(errno));
	return 1;
}

static int
echo(void)
{
	printf("%s", input);
	return 0;
}

static int
counts(void)
{
	static int n;

	printf("{\"n\":%d}", ++n);
	return 0;
}

static int
reads(void)
{
	FILE *file = fopen(member("path"), "r");
	char text[4096];

	if (file == NULL)
		return fails("read");
	printf("%.*s", (int)fread(text, 1, sizeof(text), file), text);
	return 0;
}

static int
writes(void)
{
	FILE *file = fopen(member("path"), "w");

	if (file == NULL || fputs("written", file) < 0 || fclose(file) != 0)
		return fails("write");
	return 0;
}

static int
lists(void)
{
	DIR *dir = opendir(member("path"));
	const struct dirent *entry;

	if (dir == NULL)
		return fails("list");
	while ((entry = readdir(dir)) != NULL)
		printf("%s\n", entry->d_name);
	return 0;
}

/* What programs do with files, each step checked. */
static int
files(void)
{
	struct stat st;
	char text[8] = "";
	int fd;

	if (mkdir("sub", 0777) < 0 || (fd = open("sub/a", O_RDWR | O_CREAT | O_EXCL, 0666)) < 0)
		return fails("create");
	if (write(fd, "abcdef", 6) != 6 || lseek(fd, 2, SEEK_SET) != 2 || read(fd, text, 2) != 2 || strcmp(text, "cd") != 0)
		return fails("seek");
	if (pread(fd, text, 2, 4) != 2 || strcmp(text, "ef") != 0 || ftruncate(fd, 3) < 0 || fstat(fd, &st) < 0 || st.st_size != 3)
		return fails("truncate");
	if (close(fd) < 0 || rename("sub/a", "b") < 0 || stat("b", &st) < 0 || !S_ISREG(st.st_mode) || stat("sub/a", &st) == 0)
		return fails("rename");
	if (unlink("b") < 0 || rmdir("sub") < 0 || stat("sub", &st) == 0 || errno != ENOENT)
		return fails("remove");
	printf("done");
	return 0;
}

/* Sends `request` as an HTTP request through /dev/http; KEY is in the environment. */
static int
http(void)
{
	const char *key = getenv("KEY");
	char head[4096], piece[4096];
	int fd = open("/dev/http", O_RDWR), n;

	if (fd < 0)
		return fails("open");
	n = snprintf(head, sizeof(head), "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: 0\r\n"
	             "Authorization: Bearer %s\r\n\r\n", member("method"), member("url"), member("host"), key != NULL ? key : "");
	if (write(fd, head, (size_t)n) != n)
		return fails("write");
	while ((n = (int)read(fd, piece, sizeof(piece))) > 0)
		fwrite(piece, 1, (size_t)n, stdout);
	return n < 0 ? fails("read") : 0;
}

static int
sleeps(void)
{
	struct timespec before, after, time = { .tv_nsec = 20 * 1000 * 1000 };

	clock_gettime(CLOCK_MONOTONIC, &before);
	nanosleep(&time, NULL);
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf("%s", (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec >= time.tv_nsec ? "slept" :
	       "woke");
	return 0;
}

static int
loops(void)
{
	for (volatile unsigned n = 0;; n++)
		;
}

static int
eats(void)
{
	static char *volatile kept;     /* or the compiler leaves it out */

	for (;;) {
		char *more = kept = malloc(16u << 20);

		if (more == NULL)
			return fails("eat");
		memset(more, 1, 16u << 20);
	}
}

static int
floods(void)
{
	static char piece[65536];

	memset(piece, 'x', sizeof(piece));
	for (;;)
		(void)fwrite(piece, 1, sizeof(piece), stdout);
}

static int
traps(void)
{
	__builtin_trap();
}

static int
fails_politely(void)
{
	printf("it did not work");
	return 3;
}

static int
bytes(void)
{
	printf("\xff\xfe");
	return 0;
}

/* Names a place that is not in the module's memory. */
static int
points(void)
{
	errno = 0;
	if (write(1, (char *)0xfffffff0u, 64) >= 0)
		return 0;
	printf("refused: %d", errno == EFAULT);
	return 0;
}

/* Speaks MCP itself. */
static int
speaks(void)
{
	static char line[1 << 16];

	while (fgets(line, sizeof(line), stdin) != NULL) {
		const char *id = strstr(line, "\"id\":");
		int number = id != NULL ? atoi(id + 5) : -1;

		if (strstr(line, "\"initialize\"") != NULL)
			printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":"
			       "{\"tools\":{}},\"serverInfo\":{\"name\":\"own\",\"version\":\"1\"}}}\n", number);
		else if (strstr(line, "\"tools/list\"") != NULL)
			printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"tools\":[{\"name\":\"own\",\"inputSchema\":"
			       "{\"type\":\"object\"}}]}}\n", number);
		else if (strstr(line, "\"tools/call\"") != NULL)
			printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"by itself\"}]}}\n",
			       number);
		fflush(stdout);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(void); } all[] = {
		{ "echo", echo }, { "counts", counts }, { "reads", reads }, { "writes", writes }, { "lists", lists },
		{ "files", files }, { "http", http }, { "sleeps", sleeps }, { "loops", loops }, { "eats", eats },
		{ "floods", floods }, { "traps", traps }, { "fails", fails_politely }, { "bytes", bytes }, { "points", points },
	};

	if (argc < 2)
		return speaks();
	(void)fread(input, 1, sizeof(input) - 1, stdin);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(argv[1], all[i].name) == 0)
			return all[i].run();
	return 9;
}
