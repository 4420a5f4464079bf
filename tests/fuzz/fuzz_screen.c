/* fuzz_screen.c - an agent's output: its modes can be set and taken back, and old output is drawn again without
 * questions; and what is typed, in which keys are searched. */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "loop/detach.h"
#include "loop/screen.h"

static void
check_modes(const uint8_t *data, size_t size)
{
	struct screen s = {0}, other = {0}, after;
	char set[SCREEN_MODES_MAX], back[SCREEN_MODES_MAX];
	size_t n;

	screen_watch(&s, data, size);
	n = screen_restore(&s, set);
	assert(n < sizeof(set));
	screen_watch(&other, (const unsigned char *)set, n);
	assert(other.modes == s.modes && other.n_keyboards == s.n_keyboards && other.other_keys == s.other_keys);
	after = other;
	n = screen_reset(&other, back);
	assert(n < sizeof(back));
	screen_watch(&after, (const unsigned char *)back, n);
	assert(after.modes == 0 && after.n_keyboards == 0 && after.other_keys == 0);
}

static void
check_redraw(const uint8_t *data, size_t size)
{
	unsigned char *out = malloc(size + 1), *twice = malloc(size + 1);
	size_t n;

	assert(out != NULL && twice != NULL);
	n = screen_redraw(data, size, out);
	assert(n <= size && memmem(out, n, "\033[6n", 4) == NULL && memmem(out, n, "\033]", 2) == NULL);
	assert(screen_redraw(out, n, twice) == n && memcmp(out, twice, n) == 0);
	free(out);
	free(twice);
}

static void
note(void *arg)
{
	*(bool *)arg = true;
}

static void
check_keys(const uint8_t *data, size_t size)
{
	bool left = false;
	struct detach d = { .leave = note, .arg = &left };
	unsigned char *out = malloc(size + 2 * DETACH_HELD_MAX);
	size_t half = size / 2, n;

	assert(out != NULL && detach_parse(DETACH_DEFAULT, &d, NULL) == 0);
	n = detach_filter(&d, data, half, out);
	if (!left)
		n += detach_filter(&d, data + half, size - half, out + n);
	assert(left ? n < size : n + d.n_held == size && memcmp(out, data, n) == 0);
	free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_modes(data, size);
	check_redraw(data, size);
	check_keys(data, size);
	return 0;
}
