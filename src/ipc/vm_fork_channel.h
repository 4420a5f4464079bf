/* vm_fork_channel.h - the words, a byte each, between cloister-init and the forker of a machine that can be copied. */
#ifndef CLOISTER_VM_FORK_CHANNEL_H
#define CLOISTER_VM_FORK_CHANNEL_H

enum fork_word {
	FORK_READY = 'R',               /* forker -> cloister-guest: the cell's processes can be stopped */
	FORK_HOLD = 'H',                /* init -> forker */
	FORK_GO_ON = 'G',               /* forker -> init: it was copied, or not; go on */
	FORK_IS_COPY = 'F',             /* forker -> init: this is a copy, with a new identity */
};
#endif
