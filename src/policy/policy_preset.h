/* policy_preset.h - the policies that come with cloister, as YAML. */
#ifndef CLOISTER_POLICY_PRESET_H
#define CLOISTER_POLICY_PRESET_H

struct policy_preset { const char *name, *help, *text; };

extern const struct policy_preset policy_presets[];     /* ends with a NULL name */
const struct policy_preset *policy_find_preset(const char *name);      /* or NULL */
/* The preset whose name is closest to NAME, or NULL. */
const char *policy_nearest_preset(const char *name);
#endif
