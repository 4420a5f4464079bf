/* cell_machine.c - what the machine of a cell depends on, as a hash: see cell_spec.h. */
#include <string.h>

#include "base/codec.h"
#include "cell/cell_spec.h"

void
cell_spec_hash_machine(const struct cell_spec *spec, char ret_hash[HASH_HEX + 1])
{
	const uint64_t numbers[] = { spec->limits.memory, spec->limits.cpus_milli, spec->vm_emulated, spec->vm_tap,
	                             spec->has_policy, spec->root, spec->profile };
	unsigned char hash[HASH_LEN];
	struct hash h;

	hash_begin(&h);
	hash_add(&h, numbers, sizeof(numbers));
	hash_add(&h, spec->vm_kernel_hash, HASH_LEN);
	hash_add(&h, spec->vm_initramfs_hash, HASH_LEN);
	hash_add(&h, spec->vm_disk_hash, HASH_LEN);
	hash_add(&h, spec->vm_monitor, strlen(spec->vm_monitor) + 1);
	hash_end(&h, hash);
	codec_hex(hash, HASH_LEN, ret_hash);
}
