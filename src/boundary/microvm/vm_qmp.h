/* vm_qmp.h - QEMU's control socket: the functions of its driver that a keeper calls. */
#ifndef CLOISTER_VM_QMP_H
#define CLOISTER_VM_QMP_H
#include "boundary/microvm/vm_driver.h"

/* Where devices are plugged in that a template does not have. */
#define QEMU_SHARE_SLOT "slot1"
#define QEMU_DISK_SLOT "slot2"
#define QEMU_DISK "disk"                /* what is behind the device */

int qmp_begin(struct vm_control *c, struct err *err);
int qmp_pause(struct vm_control *c, struct err *err);
int qmp_snapshot(struct vm_control *c, const struct vm_machine *m, struct err *err);
int qmp_restore(struct vm_control *c, const struct vm_machine *m, struct err *err);
int qmp_plug(struct vm_control *c, const struct vm_machine *m, bool offered, struct err *err);
int qmp_resume(struct vm_control *c, struct err *err);
void qmp_end(struct vm_control *c);
#endif
