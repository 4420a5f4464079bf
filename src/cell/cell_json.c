/* cell_json.c - writes a cell as a JSON object, for `cloister ps --json` and the API. */
#include <unistd.h>

#include "base/json.h"
#include "cell/cell_control.h"
#include "ipc/control_channel.h"
#include "policy/policy_boundary.h"

const char *
cell_state_word(uint32_t state, uint32_t waiting)
{
	static const char *const words[] = {
		[CONTROL_STATE_RUNS] = "running", [CONTROL_STATE_FROZEN] = "frozen", [CONTROL_STATE_DEAD] = "ending",
		[CONTROL_STATE_PAUSED] = "paused", [CONTROL_STATE_SILENT] = "silent", [CELL_STATE_ENDED] = "ended",
		[CELL_STATE_RESTARTS] = "restarting",
	};

	return state == CONTROL_STATE_RUNS && waiting > 0 ? "waiting" : words[state];
}

const char *
cell_info_state(const struct cell_info *info)
{
	return cell_state_word(info->state, info->waiting);
}

static void
json_number_or_null(struct json *out, const char *key, uint64_t value)
{
	if (value == 0)
		json_none(out, key);
	else
		json_u64(out, key, value);
}

static void
json_spec(struct json *out, const struct cell_spec *spec, const char *state)
{
	json_str(out, "cell", spec->id);
	json_str(out, "name", spec->name[0] != '\0' ? spec->name : NULL);
	json_str(out, "state", state);
	json_open(out, "command", '[');
	for (char **word = spec->argv; *word != NULL; word++)
		json_str(out, NULL, *word);
	json_close(out, ']');
	json_str(out, "boundary", spec->boundary[0] != '\0' ? spec->boundary : BOUNDARY_DEFAULT);
	json_str(out, "runtime", spec->runtime);
	json_bool(out, "detached", spec->detached);
	json_str(out, "principal", spec->principal[0] != '\0' ? spec->principal : NULL);
	json_str(out, "chain", spec->chain[0] != '\0' ? spec->chain : NULL);
	if (spec->restart_of[0] != '\0')
		json_str(out, "restart_of", spec->restart_of);
	if (spec->fork_of.id[0] != '\0')
		json_str(out, "fork_of", spec->fork_of.id);
	json_open(out, "workspace", '[');
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].workspace)
			json_str(out, NULL, spec->grants[i].host);
	json_close(out, ']');
	json_bool(out, "policy", spec->has_policy);
	json_open(out, "ports", '[');
	for (size_t i = 0; i < spec->n_ports; i++) {
		json_open(out, NULL, '{');
		json_u64(out, "cell", spec->ports[i].cell);
		json_u64(out, "host", spec->ports[i].host);
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void
json_known(struct json *out, const char *key, bool known, uint64_t value)
{
	if (known)
		json_u64(out, key, value);
	else
		json_none(out, key);
}

static void
json_use(struct json *out, const struct cell_use *use)
{
	json_known(out, "cpu_ms", use->cpu_us > 0, use->cpu_us / 1000);
	json_number_or_null(out, "peak", use->peak);
	json_number_or_null(out, "disk", use->disk);
	json_known(out, "read", use->has_io != 0, use->read);
	json_known(out, "written", use->has_io != 0, use->written);
	json_known(out, "pressure_cpu", use->has_pressure != 0, use->pressure_cpu);
	json_known(out, "pressure_io", use->has_pressure != 0, use->pressure_io);
	json_known(out, "pressure_memory", use->has_pressure != 0, use->pressure_memory);
}

void
cell_info_json(struct json *w, const struct cell_info *info)
{
	json_open(w, NULL, '{');
	json_spec(w, &info->spec, cell_info_state(info));
	json_number_or_null(w, "supervisor", info->supervisor);
	json_number_or_null(w, "init", info->init);
	json_number_or_null(w, "agent", info->agent);
	json_u64(w, "started", info->started_ns / 1000000000);
	json_u64(w, "user", geteuid());
	json_str(w, "machine", info->machine[0] != '\0' ? info->machine : NULL);
	json_number_or_null(w, "memory", info->memory);
	json_number_or_null(w, "pids", info->pids);
	json_bool(w, "can_freeze", info->can_freeze != 0);
	json_u64(w, "waiting", info->waiting);
	json_use(w, &info->use);
	json_close(w, '}');
}

void
cell_record_json(struct json *w, const struct cell_record *record)
{
	json_open(w, NULL, '{');
	json_spec(w, &record->spec, cell_state_word(CELL_STATE_ENDED, 0));
	json_u64(w, "status", record->status);
	json_str(w, "cause", record->cause[0] != '\0' ? record->cause : NULL);
	json_u64(w, "started", record->started_ns / 1000000000);
	json_u64(w, "ended", record->ended_ns / 1000000000);
	json_bool(w, "changes", record->n_changes > 0);
	json_bool(w, "kept", !record->is_bare);
	json_close(w, '}');
}
