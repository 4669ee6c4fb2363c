// Looks at a command line before argp does, for long options that the program does not have. Called
// by the main of every program with argp (the gateway, walle, walle-device, walle-engine, the
// simulator, walle-store), before there are threads. It knows of options only what argp's table
// says, beginnings included, as argp takes those too; everything else about a command line stays
// argp's to judge.
#include "base/text/near_option.h"

#include "base/check.h"
#include "base/text/likeness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// Options that argp adds to everybody's.
static const char *const argp_own[] = {"help", "usage"};

// Is `name` (up to `size`) an option or the beginning of one? *out_takes: what is behind it belongs
// to it.
static bool is_known(const struct argp_option *options, const char *name, size_t size,
                     bool *out_takes, struct base_nearest *nearest)
{
    for (const struct argp_option *option = options; option != NULL; ++option) {
        if (option->name == NULL && option->key == 0 && option->doc == NULL) {
            break;
        }
        if (option->name != NULL && strncmp(option->name, name, size) == 0) {
            *out_takes = option->arg != NULL && name[size] == '\0';
            return true;
        }
        if (option->name != NULL) {
            base_nearest_offer(nearest, option->name);
        }
    }
    for (size_t k = 0; k < sizeof(argp_own) / sizeof(argp_own[0]); k++) {
        if (strncmp(argp_own[k], name, size) == 0) {
            return true;
        }
        base_nearest_offer(nearest, argp_own[k]);
    }
    return false;
}

bool base_options_known(const struct argp_option *options, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; ++i) {
        if (strncmp(argv[i], "--", 2) != 0) {
            continue;
        }
        const char *name = argv[i] + 2;
        size_t size = strcspn(name, "=");
        struct base_nearest nearest = base_nearest_to((struct base_str){name, size});
        bool takes = false;
        if (!is_known(options, name, size, &takes, &nearest)) {
            base_assert(size > 0); // no letters begin every option
            fprintf(stderr, "%s: no option '--%.*s'", program_invocation_short_name, (int)size,
                    name);
            if (nearest.found != NULL) {
                fprintf(stderr, "; did you mean --%s?", nearest.found);
            }
            fprintf(stderr, "\n'%s --help' shows what there is\n", program_invocation_short_name);
            return false;
        }
        i += takes ? 1 : 0;
    }
    return true;
}
