/* policy_yaml_explain.h - explains libyaml's errors in words for people. */
#ifndef CLOISTER_POLICY_YAML_EXPLAIN_H
#define CLOISTER_POLICY_YAML_EXPLAIN_H
#include <stddef.h>
#include <yaml.h>

#define POLICY_YAML_TEXT_MAX 320

/* Explain the error in the LEN bytes of TEXT and how to fix it.  MARK is where libyaml noticed it;
 * it is moved to where a person would look. */
void policy_yaml_explain(const yaml_parser_t *yaml, const char *text, size_t len,
                         yaml_mark_t *mark, char ret_text[POLICY_YAML_TEXT_MAX]);
#endif
