/* privileges.c - see privileges.h. */
#include "confine/privileges.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

int
privileges_close(struct err *err)
{
	const unsigned long locked =
		SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
		SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
		SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	for (int cap = 0; cap <= 63 && prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
		;
	return prctl(PR_SET_SECUREBITS, locked) < 0 ? err_errno(err, "cannot lock the secure bits") : 0;
}

int
privileges_drop(struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = {0};

	return syscall(SYS_capset, &header, none) < 0 ? err_errno(err, "cannot drop the capabilities") : 0;
}

int
privileges_keep(uint32_t rights, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data) < 0)
		return err_errno(err, "cannot read this process's rights");
	data[0].permitted &= rights;
	data[1].permitted = 0;
	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? err_errno(err, "cannot give up rights") : 0;
}
