/* link_services.c - see link_services.h. */
#include "link/link_services.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "canon/hash.h"

#define FILE_MAX (LINK_ADDRESS_MAX + 2 * LINK_HEX + 8)

static void
hash_token(const char *secret, char ret_hash[LINK_HEX + 1])
{
	unsigned char hash[HASH_LEN];

	hash_of(secret, strlen(secret), hash);
	codec_hex(hash, sizeof(hash), ret_hash);
}

static int
read_service(int dir, const char *home, struct link_service *ret_service, struct err *err)
{
	char path[LINK_HOME_MAX + sizeof("/" LINK_SERVICE_FILE)];
	OWN(freep) char *text = NULL;
	struct link_service s = {0};
	int r;

	snprintf(path, sizeof(path), "%s/" LINK_SERVICE_FILE, home);
	r = read_file_at(dir, path, FILE_MAX, &text, NULL, err);
	if (r < 0)
		return r;
	if (sscanf(text, "%261s %64s %64s", s.address, s.print, s.token) != 3 || !link_is_hex(s.print, LINK_HEX))
		return err_set(err, EBADMSG, "the file of the service %s is damaged: join it again", home);
	snprintf(s.home, sizeof(s.home), "%s", home);
	*ret_service = s;
	return 0;
}

int
link_services_list(int dir, struct link_service ret_services[LINK_SERVICES_MAX], size_t *ret_n, struct err *err)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *at = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	size_t n = 0;
	int r = at == NULL ? err_errno(err, "cannot read the folder of joined services") : 0;

	while (r == 0 && n < LINK_SERVICES_MAX && (e = readdir(at)) != NULL)
		if (link_is_name(e->d_name, LINK_HOME_MAX) && (r = read_service(dir, e->d_name, &ret_services[n], err)) == 0)
			n++;
	*ret_n = n;
	return r;
}

bool
link_services_used(int dir, const char *secret)
{
	struct link_service all[LINK_SERVICES_MAX];
	char hash[LINK_HEX + 1];
	size_t n = 0;

	hash_token(secret, hash);
	if (link_services_list(dir, all, &n, NULL) < 0)
		return false;
	while (n > 0)
		if (strcmp(all[--n].token, hash) == 0)
			return true;
	return false;
}

int
link_services_clear(int dir, struct err *err)
{
	OWN(closep) int folder = openat(dir, LINK_JOINING, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int fd = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *at = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (folder < 0 && errno == ENOENT)
		return 0;
	while (at != NULL && (e = readdir(at)) != NULL)
		(void)!unlinkat(folder, e->d_name, 0);
	return unlinkat(dir, LINK_JOINING, AT_REMOVEDIR) == 0 ? 0 : err_errno(err, "cannot remove '" LINK_JOINING "'");
}

int
link_services_add(int dir, const char *home, const struct link_token *token, struct err *err)
{
	OWN(closep) int folder = openat(dir, LINK_JOINING, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char text[FILE_MAX], hash[LINK_HEX + 1];
	int r;

	if (folder < 0)
		return err_errno(err, "cannot open the folder '" LINK_JOINING "'");
	hash_token(token->secret, hash);
	snprintf(text, sizeof(text), "%s %s %s\n", token->address, token->print, hash);
	r = create_file_at(folder, LINK_SERVICE_FILE, 0600, text, err);
	if (r < 0)
		return r;
	if (fsync(folder) < 0)
		return err_errno(err, "cannot keep the service %s", home);
	if (renameat(dir, LINK_JOINING, dir, home) == 0)
		return 0;
	/* The older one is of no use any more: the service has a new certificate for this worker. */
	if ((errno != EEXIST && errno != ENOTEMPTY) || renameat2(dir, LINK_JOINING, dir, home, RENAME_EXCHANGE) < 0)
		return err_errno(err, "cannot keep the service %s", home);
	return link_services_clear(dir, err);
}
