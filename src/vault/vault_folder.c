/* vault_folder.c - finds the vault's folder; also for programs that never open the vault. */
#include "base/data.h"
#include "vault/vault.h"

char *
vault_path(struct err *err)
{
	return data_path("vault", err);
}

int
vault_folder(bool make, struct err *err)
{
	return data_folder("vault", make, err);
}
