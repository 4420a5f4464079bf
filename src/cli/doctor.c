/* doctor.c - `cloister doctor`: reports what this machine can and cannot enforce. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "boundary/boundary.h"
#include "boundary/findings.h"
#include "boundary/place.h"
#include "cell/cell_try.h"
#include "cli/cli.h"
#include "cli/doctor.h"

static const char *const state_names[] = { "ok", "limited", "missing" };

struct doctor {
	bool json;
	const char *target;             /* NULL: this machine */
	struct doctor_firewall firewall;
	struct findings findings;
};

enum { TO = 1, SERVICE };

const struct cli_option cli_doctor_options[] = {
	{ "target", 0, "NAME", "show what a registered target lacks; tries a worker there", CLI_TEXT(struct doctor, target) },
	{ "firewall", 0, NULL, "print rules for a machine with Docker and cells", CLI_FLAG(struct doctor, firewall.asked) },
	{ "network", 0, "NAME", "firewall: the workers' network of Docker", CLI_TEXT(struct doctor, firewall.network) },
	{ "to", 0, "ADDRESS:PORT", "firewall: workers may reach this private address", TO },
	{ "service", 0, "PORT", "firewall: workers find the service at this port (7879)", SERVICE },
	{ "remove", 0, NULL, "firewall: remove the rules instead", CLI_FLAG(struct doctor, firewall.remove) },
	{ "apply", 0, NULL, "firewall: do it instead of printing it", CLI_FLAG(struct doctor, firewall.apply) },
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct doctor, json) },
	{0}
};

/* The same, to be handed over. */
static const struct cli_option handed_options[] = { { "target", 0, "NAME", "", 0 }, { "json", 0, NULL, "", 0 }, {0} };

/* ---- findings of its own ---- */

/* Each part may work and the whole fail, so the last test is a real cell. */
static void
try_cell(struct findings *f)
{
	const struct finding *obstacle = findings_obstacle(f);
	char text[CELL_TRY_WHY_MAX];
	struct finding *c;
	int r;

	if (obstacle != NULL) {
		findings_add(f, "a real cell", FINDING_MISSING, "not tried, because '%s' is missing", obstacle->name);
		return;
	}
	r = cell_try(NULL, text);
	if (r == 0) {
		findings_add(f, "a real cell", FINDING_OK, "`cloister run -- true` works");
		return;
	}
	c = findings_add(f, "a real cell", FINDING_MISSING, "`cloister run -- true` fails: %s",
	                 r < 0 ? strerrordesc_np(-r) : text);
	c->needed = true;
	findings_advise(c, "%s", findings_container_advice(""));
}

/* Names the place, with the line to add if no cell runs there.  WSL gives limits only with systemd. */
static void
add_place(struct findings *f)
{
	struct place_signs signs;
	const struct place *place;
	bool lacks;

	place_look(&signs);
	place = place_recognise(&signs);
	if (place == NULL)
		return;
	lacks = findings_obstacle(f) != NULL || (signs.wsl && !signs.container && access("/run/systemd/system", F_OK) < 0);
	findings_advise(findings_add(f, "place", lacks ? FINDING_LIMITED : FINDING_OK, "%s", place->name), "%s",
	                lacks ? place->fix : "");
}

/* ---- showing it ------------------------------------------------------------- */

/* Prints the text in lines of at most WIDTH from column INDENT on; 0 means one line. */
static void
print_wrapped(const char *text, int indent, int width)
{
	int column = indent;
	size_t len;

	for (const char *p = text; *p != '\0'; p += len) {
		p += strspn(p, " ");
		len = strcspn(p, " ");
		if (width > 0 && column > indent && column + 1 + (int)len > width) {
			printf("\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		text_print_safe(stdout, p, len, false);
		column += (int)len;
	}
	putchar('\n');
}

static void
print_table(const struct findings *f)
{
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m" };
	bool colour = text_wants_colour(stdout);
	struct winsize window = {0};
	int name_width = 0, width, indent;

	for (size_t i = 0; i < f->n; i++)
		if ((int)strlen(f->at[i].name) > name_width)
			name_width = (int)strlen(f->at[i].name);
	indent = 9 + name_width + 2;
	width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > indent + 20 ?
	        window.ws_col : 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *c = &f->at[i];

		printf("%s%-7s%s  %-*s  ", colour ? colours[c->state] : "", state_names[c->state],
		       colour ? "\033[0m" : "", name_width, c->name);
		print_wrapped(c->found, indent, width);
		if (c->todo[0] != '\0') {
			printf("%*s-> ", indent, "");
			print_wrapped(c->todo, indent + 3, width);
		}
	}
}

static void
print_json(const struct findings *f)
{
	const struct finding *obstacle = findings_obstacle(f);
	struct json out = { .out = stdout };

	json_open(&out, NULL, '{');
	json_bool(&out, "can_run", obstacle == NULL);
	json_str(&out, "obstacle", obstacle != NULL ? obstacle->name : NULL);
	json_open(&out, "checks", '[');
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *c = &f->at[i];

		json_open(&out, NULL, '{');
		json_str(&out, "name", c->name);
		json_str(&out, "state", state_names[c->state]);
		json_str(&out, "found", c->found);
		json_str(&out, "todo", c->todo[0] != '\0' ? c->todo : NULL);
		json_close(&out, '}');
	}
	json_close(&out, ']');
	json_close(&out, '}');
	putchar('\n');
}

static int
take(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct doctor_firewall *f = &((struct doctor *)arg)->firewall;
	uint64_t port;

	if (option->id == TO && f->n_places == ARRAY_LEN(f->places))
		return err_set(err, E2BIG, "--to may be given %zu times at most", ARRAY_LEN(f->places));
	if (option->id == TO) {
		f->places[f->n_places++] = value;
	} else if (option->id == SERVICE) {
		if (num_parse_count(value, 1, UINT16_MAX, &port, err) < 0)
			return err_wrap(err, "--service '%s'", value);
		f->service = (uint16_t)port;
	}
	return 0;
}

/* Rules are for --firewall alone. */
static int
check_options(const struct doctor *d, struct err *err)
{
	const struct doctor_firewall *f = &d->firewall;

	if (!f->asked && (f->network != NULL || f->n_places > 0 || f->service != 0 || f->remove || f->apply))
		return err_set(err, EINVAL, "--network, --to, --service, --remove and --apply are for --firewall");
	if (f->asked && d->target != NULL)
		return err_set(err, EINVAL, "--firewall is about this machine, and --target about another");
	if (f->n_places > 0 && f->network == NULL && !f->remove)
		return err_set(err, EINVAL, "--to is about workers: name their network with --network");
	return 0;
}

int
cmd_doctor(int argc, char **argv)
{
	struct doctor d = {0};
	const struct finding *obstacle;
	struct err err = {0};
	int rest;

	if (cli_parse(cli_doctor_options, argc, argv, true, take, &d, &rest, &err) < 0 || check_options(&d, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'doctor' takes no argument: '%s'", argv[rest]);
	if (d.firewall.asked) {
		d.firewall.service = d.firewall.service != 0 ? d.firewall.service : FIREWALL_SERVICE;
		return doctor_firewall(&d.firewall, d.json);
	}
	/* It knows what is registered. */
	if (d.target != NULL)
		return cli_hand_over("cloister-registry", handed_options, argc, argv);
	boundary_find("", NULL)->examine(&d.findings);
	boundary_find(BOUNDARY_MICROVM, NULL)->examine(&d.findings);
	boundary_find(BOUNDARY_DOCKER, NULL)->examine(&d.findings);
	boundary_find(BOUNDARY_PROCESS, NULL)->examine(&d.findings);
	doctor_record(&d.findings);
	doctor_tools(&d.findings);
	try_cell(&d.findings);
	add_place(&d.findings);
	doctor_runtimes(&d.findings);
	doctor_wasm(&d.findings);
	doctor_store(&d.findings);
	doctor_blobs(&d.findings);
	obstacle = findings_obstacle(&d.findings);
	if (d.json) {
		print_json(&d.findings);
	} else {
		print_table(&d.findings);
		if (obstacle == NULL)
			printf("\nCells can run here.\n");
		else
			printf("\nCells cannot run here: see '%s'.\n", obstacle->name);
	}
	return obstacle == NULL ? 0 : 1;
}
