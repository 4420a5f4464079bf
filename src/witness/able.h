/* able.h - whether this machine lets the witness see, as far as that costs next to nothing to find out. */
#ifndef CLOISTER_WITNESS_ABLE_H
#define CLOISTER_WITNESS_ABLE_H
#include <stdbool.h>

/* This process may load programs into the kernel (eBPF), and the kernel describes its types. */
bool witness_able_by_kernel(void);
/* Programs stay in the kernel for the cells to come (bpffs).  Without that, each start loads them, which takes half a
 * second. */
bool witness_able_to_share(void);
/* The kernel's filters can ask. */
bool witness_able_by_filter(void);
#endif
