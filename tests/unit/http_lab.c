/* http_lab.c - see http_lab.h. */
#include "http_lab.h"

#include "base/err.h"

#define RANDOM_CUTS 8
#define SHOWN_MAX 400           /* of a message, when it is wrong */
#define CUT_EVERYWHERE_MAX 2000 /* longer ones are cut at random places only */

struct lab {
	struct h1_reader reader;
	FILE *out;
	bool in_body, dead;
};

static void
check_same(struct http_text a, struct http_text b)
{
	CHECK(a.len == b.len && memcmp(a.at, b.at, a.len) == 0);
}

/* What the caller would fill in; then it must be fit to be sent on. */
static void
check_head(const struct http_head *head)
{
	OWN(buf_free) struct buf b;
	struct http_head *full = malloc(sizeof(*full)), *again = malloc(sizeof(*again));
	struct err err = {0};

	*full = *head;
	if (full->port == 0)
		full->port = 80;
	if (full->host.len == 0)
		full->host = (struct http_text){ "h", 1 };
	if (!http_text_is(head->method, "CONNECT")) {
		if (http_head_check(full, &err) < 0)
			test_fail(__FILE__, __LINE__, "the reader gave a bad head: %s", err.text);
		buf_init(&b, 1 << 17);
		http_head_encode(&b, full);
		CHECK_OK(http_head_decode(&b, again, NULL));
		CHECK(buf_left(&b) == 0 && again->n_fields == full->n_fields);
		CHECK(again->length == full->length && again->status == full->status);
		if (full->status == 0) {
			check_same(again->method, full->method);
			check_same(again->host, full->host);
			check_same(again->path, full->path);
			check_same(again->written, full->written);
			CHECK(again->says_zero == full->says_zero);
		}
		check_same(again->upgrade, full->upgrade);
		for (size_t i = 0; i < full->n_fields; i++) {
			check_same(again->fields[i].name, full->fields[i].name);
			check_same(again->fields[i].value, full->fields[i].value);
		}
	} else {
		buf_init(&b, 0);
	}
	free(full);
	free(again);
}

static void
print_text(FILE *out, struct http_text text)
{
	fwrite(text.at, 1, text.len, out);
}

static void
print_fields(FILE *out, const char *mark, const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		fputs(mark, out);
		print_text(out, head->fields[i].name);
		fputc('=', out);
		print_text(out, head->fields[i].value);
		fputc('\n', out);
	}
}

static void
print_head(struct lab *lab)
{
	static const char *const forms[] = { "", "absolute", "authority", "all" };
	const struct h1_reader *r = &lab->reader;
	const struct http_head *head = &r->head;

	check_head(head);
	if (head->status == 0) {
		print_text(lab->out, head->method);
		fprintf(lab->out, " %s%s|", forms[r->form],
		        r->form == H1_ABSOLUTE && head->scheme == HTTP_TLS ? "s" : "");
		print_text(lab->out, head->host);
		fprintf(lab->out, "|%d|", head->port);
		print_text(lab->out, head->path);
	} else {
		fprintf(lab->out, "%d", head->status);
	}
	if (head->length == HTTP_LENGTH_UNKNOWN)
		fprintf(lab->out, "|?|");
	else
		fprintf(lab->out, "|%llu|", (unsigned long long)head->length);
	fprintf(lab->out, "%s%s%s%s%s\n", r->keep_alive ? "k" : "",
	        r->expects_continue ? "c" : "", r->until_close ? "u" : "",
	        head->upgrade.len > 0 ? "w" : "", r->version == 10 ? "0" : "");
	print_fields(lab->out, "", head);
}

static void
print_event(struct lab *lab, enum h1_event event, struct http_text piece,
            const struct err *err)
{
	if (event == H1_BODY) {
		CHECK(piece.len > 0);
		fputs(lab->in_body ? "" : "<", lab->out);
		print_text(lab->out, piece);
		lab->in_body = true;
		return;
	}
	if (lab->in_body && event != H1_MORE) {
		fputs(">\n", lab->out);
		lab->in_body = false;
	}
	if (event == H1_HEAD)
		print_head(lab);
	if (event == H1_END) {
		CHECK_OK(http_trailers_check(lab->reader.head.fields, lab->reader.head.n_fields, NULL));
		print_fields(lab->out, "+", &lab->reader.head);
		fputs(".\n", lab->out);
	}
	if (event == H1_BAD) {
		CHECK(err->text[0] != '\0' && strchr(err->text, '\n') == NULL);
		fprintf(lab->out, "!%d %s\n", lab->reader.status, err->text);
		lab->dead = true;
	}
}

static void
feed(struct lab *lab, const char *data, size_t len)
{
	/* As long as it is, so that the sanitizer sees a read past the end. */
	OWN(freep) char *copy = malloc(len);
	struct http_text piece = {0};
	enum h1_event event;
	size_t at = 0, used;

	memcpy(copy, data, len);
	while (!lab->dead) {
		struct err err = {0};

		event = h1_read(&lab->reader, copy + at, len - at, &used, &piece, &err);
		CHECK(used <= len - at);
		if (event == H1_BODY)
			CHECK(piece.at >= copy && piece.at + piece.len == copy + at + used);
		print_event(lab, event, piece, &err);
		at += used;
		if (event == H1_MORE) {
			CHECK(at == len);
			break;
		}
	}
}

static void
feed_eof(struct lab *lab)
{
	struct err err = {0};
	enum h1_event event;

	if (lab->dead)
		return;
	event = h1_read_eof(&lab->reader, &err);
	if (lab->in_body)
		fputs(">\n", lab->out);
	lab->in_body = false;
	if (event == H1_END)
		print_event(lab, event, (struct http_text){0}, &err);
	fputs(event == H1_BAD ? "EOF!\n" : "EOF\n", lab->out);
}

/* SIZES gives the lengths of pieces, again and again; 0 ends it: the rest in one. */
static char *
read_cut(enum lab_kind kind, const char *data, size_t len, const size_t *sizes, size_t n)
{
	struct lab *lab = calloc(1, sizeof(*lab));
	char *text = NULL;
	size_t size = 0, at = 0;

	lab->out = open_memstream(&text, &size);
	h1_reader_init(&lab->reader, kind == LAB_REQUESTS ? H1_REQUESTS : H1_RESPONSES);
	if (kind == LAB_ANSWERS_TO_HEAD)
		h1_reader_expect(&lab->reader, true);
	for (size_t i = 0; at < len; i++) {
		size_t piece = sizes[i % n];

		if (piece == 0 || piece > len - at)
			piece = len - at;
		feed(lab, data + at, piece);
		/* An idle reader may be put to rest at any time. */
		if (i % 3 == 0)
			h1_reader_rest(&lab->reader);
		at += piece;
	}
	feed_eof(lab);
	h1_reader_free(&lab->reader);
	fclose(lab->out);
	free(lab);
	return text;
}

static int
shown(size_t len)
{
	return (int)(len < SHOWN_MAX ? len : SHOWN_MAX);
}

static void
check_cut(enum lab_kind kind, const char *data, size_t len, const size_t *sizes, size_t n,
          const char *want)
{
	OWN(freep) char *text = read_cut(kind, data, len, sizes, n);

	if (strcmp(text, want) != 0)
		test_fail(__FILE__, __LINE__,
		          "cut into %zu, %zu, ... \"%.*s\" gives\n%s\nand in one piece\n%s",
		          sizes[0], n > 1 ? sizes[1] : 0, shown(len), data, text, want);
}

char *
lab_read(enum lab_kind kind, const char *data, size_t len)
{
	char *text = read_cut(kind, data, len, &(size_t){ 0 }, 1);
	unsigned random = 1;

	check_cut(kind, data, len, &(size_t){ 1 }, 1, text);
	if (len <= CUT_EVERYWHERE_MAX)
		for (size_t i = 1; i < len; i++)
			check_cut(kind, data, len, (size_t[]){ i, 0 }, 2, text);
	for (int i = 0; i < RANDOM_CUTS; i++) {
		size_t sizes[7];

		for (size_t j = 0; j < ARRAY_LEN(sizes); j++) {
			random = random * 1103515245 + 12345;
			sizes[j] = 1 + (random >> 16) % (i < 4 ? 5 : 40);
		}
		check_cut(kind, data, len, sizes, ARRAY_LEN(sizes), text);
	}
	return text;
}

/* Refusals are compared without their words. */
static void
cut_words(char *text)
{
	char *mark = text[0] == '!' ? text : strstr(text, "\n!");

	if (mark != NULL && (mark = strchr(mark, ' ')) != NULL)
		memcpy(mark, "\n", 2);
}

void
lab_check(enum lab_kind kind, const char *data, size_t len, const char *want,
          const char *file, int line)
{
	OWN(freep) char *text = lab_read(kind, data, len);

	cut_words(text);
	if (strcmp(text, want) != 0)
		test_fail(file, line, "\"%.*s\" gives\n%s\nand not\n%s", shown(len), data, text, want);
}

void
lab_check_refused(enum lab_kind kind, const char *data, size_t len, int status)
{
	OWN(freep) char *text = lab_read(kind, data, len);
	const char *mark = text[0] == '!' ? text : strstr(text, "\n!");
	int got = 0;

	if (mark != NULL)
		sscanf(mark + (mark[0] == '\n'), "!%d", &got);
	if (got != status)
		test_fail(__FILE__, __LINE__, "\"%.*s\" is refused with %d, not %d:\n%.*s",
		          shown(len), data, got, status, SHOWN_MAX, text);
}
