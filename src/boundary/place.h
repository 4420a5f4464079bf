/* place.h - recognises the place in which cloister runs: a container, a runner of CI, WSL. */
#ifndef CLOISTER_PLACE_H
#define CLOISTER_PLACE_H
#include <stdbool.h>

struct place {
	const char *name;               /* "a GitHub Actions runner" */
	const char *fix;                /* the line to add if cells cannot run there, and where */
	bool is_container;
};

/* What is to be seen from inside. */
struct place_signs {
	bool container;                 /* files of Docker and Podman, or systemd's variable */
	bool codespaces, devcontainer, github, gitlab;  /* their variables */
	bool wsl;                       /* the kernel's name */
};
void place_look(struct place_signs *ret_signs);
/* NULL: nothing special. */
const struct place *place_recognise(const struct place_signs *signs);
#endif
