/* vault_folder.c - where the vault is; for those, too, that never open it. */
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
