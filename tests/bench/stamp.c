/* stamp.c - an agent whose first instruction is to say when: nanoseconds, into the file argv[1]. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	char text[32];
	struct timespec now;
	int fd, n;

	clock_gettime(CLOCK_REALTIME, &now);
	fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
	n = snprintf(text, sizeof(text), "%lld%09ld", (long long)now.tv_sec, now.tv_nsec);
	return fd < 0 || write(fd, text, (size_t)n) != n;
}
