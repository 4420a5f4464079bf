/* vm_drivers.c - the programs that run virtual machines: which one runs a cell's, and how it is started. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_driver.h"

static const struct vm_driver *const drivers[] = { &vm_qemu, &vm_cloud, &vm_fire };

const struct vm_driver *
vm_choose_driver(const char *name, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		if (name[0] == '\0' && drivers[i]->find(NULL) == 0)
			return drivers[i];
		if (strcmp(name, drivers[i]->name) == 0)
			return drivers[i]->find(err) == 0 ? drivers[i] : NULL;
	}
	if (name[0] == '\0')
		(void)vm_qemu.find(err);
	else
		(void)err_set(err, EINVAL, "no program '%.40s' runs virtual machines: use qemu, cloud-hypervisor or "
		              "firecracker", name);
	return NULL;
}

/* A test's own program, which plays a monitor. */
const char *
vm_test_program(void)
{
#ifdef CLOISTER_MUTANT
	return getenv("CLOISTER_MONITOR");
#else
	return NULL;
#endif
}

const char *
vm_test_words(void)
{
#ifdef CLOISTER_MUTANT
	const char *words = getenv("CLOISTER_VM_WORDS");

	return words != NULL ? words : "";
#else
	return "";
#endif
}

const char *
vm_program(const struct vm_driver *driver)
{
	if (driver->locate == NULL)
		return driver->program;
	return vm_test_program() != NULL ? vm_test_program() : driver->locate();
}

const char *
vm_find_program(const char *const *places)
{
	if (vm_test_program() != NULL)
		return "/" VM_MONITOR;
	for (; *places != NULL; places++)
		if (access(*places, X_OK) == 0)
			return *places;
	return NULL;
}

int
vm_exec(const char *program, char *const *argv, const int *kept, size_t n, int log, struct err *err)
{
	char *env[] = { NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (size_t i = 0; i < n; i++)
		if (kept[i] >= 0 && fcntl(kept[i], F_SETFD, 0) < 0)
			return err_errno(err, "cannot hand a descriptor to the virtual machine");
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log, 2) < 0)
		return err_errno(err, "cannot arrange the virtual machine's descriptors");
	execve(program, argv, env);
	return err_errno(err, "cannot run %s", program);
}
