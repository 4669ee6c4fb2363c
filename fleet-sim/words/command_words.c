// The words of a command and its last words. Called by the main functions of commands, on the main
// thread, once each; argp and the C library keep names in globals of the process, which is one
// command's.
#include "words/command_words.h"

#include "base/check.h"
#include "base/text/near_option.h"
#include "model/sim_exit.h"

#include <errno.h>
#include <stdio.h>

bool sim_command_read(const struct argp *parser, unsigned flags, int argc, char **argv, void *input)
{
    base_assert(argc > 0);
    argp_err_exit_status = SIM_EXIT_USAGE;
    program_invocation_short_name = argv[0];
    return base_options_known(parser->options, argc, argv) &&
           argp_parse(parser, argc, argv, flags, NULL, input) == 0;
}

int sim_command_failed(const char *name, enum base_status status, const struct base_error *error)
{
    base_assert(status != BASE_OK);
    (void)fprintf(stderr, "%s: %s\n", name, error->text);
    return status == BASE_ERR_INVALID || status == BASE_ERR_LIMIT ? SIM_EXIT_USAGE : SIM_EXIT_LOCAL;
}
