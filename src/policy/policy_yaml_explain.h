/* policy_yaml_explain.h - says in words for people what libyaml does not like. */
#ifndef CLOISTER_POLICY_YAML_EXPLAIN_H
#define CLOISTER_POLICY_YAML_EXPLAIN_H
#include <stddef.h>
#include <yaml.h>

#define POLICY_YAML_TEXT_MAX 320

/* What is wrong in the LEN bytes of TEXT that YAML gave up on, and what to write instead.
 * MARK is where YAML found out, and becomes where a person would look. */
void policy_yaml_explain(const yaml_parser_t *yaml, const char *text, size_t len,
                         yaml_mark_t *mark, char ret_text[POLICY_YAML_TEXT_MAX]);
#endif
