/* run_trust.c - refuses operator's files that are where the cell may write. */
#include "cli/run.h"
#include "trust/trust.h"

int
run_distrust_grants(const struct run *run, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < run->spec.n_grants; i++)
		if (run->spec.grants[i].access == CELL_WRITE)
			trust_also(run->spec.grants[i].host);
	/* Only the document and the files of variables were read before all grants were known. */
	if (run->doc != NULL)
		r = trust_path(TRUST_DOCUMENT, run->doc_file, err);
	for (char **file = run->spec.sources; r == 0 && file != NULL && *file != NULL; file++)
		r = trust_path(TRUST_ENV_FILE, *file, err);
	return r;
}
