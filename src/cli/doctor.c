#include "cli/cli.h"
const struct cli_option cli_doctor_options[] = { {0} };
int cmd_doctor(int argc, char **argv) { (void)argc; (void)argv; return 125; }
