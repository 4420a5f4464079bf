/* vm_xsave.c - preloaded into Cloud Hypervisor, which insists on a processor with XSAVE: answers for an emulated one
 * that has none.  With PROGRAM it is the program that starts that one with the library LIBRARY. */
#include <linux/kvm.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef PROGRAM
int
main(int argc, char **argv)
{
	char *env[] = { "LD_PRELOAD=" LIBRARY, NULL };

	(void)argc;
	execve(PROGRAM, argv, env);
	return 127;
}
#else
int
ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;
	int r;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == KVM_CHECK_EXTENSION && arg == (void *)KVM_CAP_XCRS)
		return 1;
	r = (int)syscall(SYS_ioctl, fd, request, arg);
	if (r < 0 && request == KVM_GET_XCRS)
		memset(arg, 0, sizeof(struct kvm_xcrs));
	return r < 0 && (request == KVM_GET_XCRS || request == KVM_SET_XCRS) ? 0 : r;
}
#endif
