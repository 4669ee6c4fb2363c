// What every command shares: how it fails, and how it reads its options. Called by the commands, on
// the one thread there is. cli_main.c filled the values from argp before; here a command asks
// whether an option was given and gets its number, checked for range, or a message that names the
// option. cli_fail is the one way in which a command says on standard error why it ends, and gives
// its exit code back.
#include "cli/base/cli.h"

#include "base/text/terminal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX 4096 // bytes of an error shown

static const char *const option_names[CLI_OPTION_COUNT] = {
#define CLI_OPTION_NAME(name, key, text, argument, doc) text,
    CLI_OPTION_MAP(CLI_OPTION_NAME)
#undef CLI_OPTION_NAME
};

static char why[MESSAGE_MAX]; // of the last failure

const char *cli_why(void)
{
    return why;
}

enum cli_exit cli_fail(enum cli_exit code, const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    (void)snprintf(why, sizeof(why), "%s", text);
    fputs("walle: ", stderr);
    base_terminal_text(stderr, base_str_of(text));
    fputc('\n', stderr);
    return code;
}

bool cli_given(const struct cli *cli, enum cli_option option)
{
    return cli->values[option] != NULL;
}

bool cli_gives_reason(const struct cli *cli)
{
    const char *reason = cli->values[CLI_OPTION_REASON];
    return reason != NULL && reason[strspn(reason, " \t\r\n")] != '\0';
}

enum cli_exit cli_check_reason(const struct cli *cli)
{
    return cli_gives_reason(cli)
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_USAGE, "--reason TEXT is missing: the audit log keeps it");
}

const char *cli_option_name(enum cli_option option)
{
    return option_names[option];
}

bool cli_option_repeats(enum cli_option option)
{
    return option == CLI_OPTION_KEY || option == CLI_OPTION_MEMBER ||
           option == CLI_OPTION_RELEASE || option == CLI_OPTION_GIVE;
}

enum cli_exit cli_option_range(const struct cli *cli, enum cli_option option,
                               const struct cli_range *range, uint64_t *out_value)
{
    const char *text = cli->values[option];
    const char *name = option_names[option];
    const char *before = range->of != NULL ? ", the number of " : "";
    const char *of = range->of != NULL ? range->of : "";
    uint64_t value = range->fallback;

    if (text == NULL || (base_str_u64(base_str_of(text), &value) == BASE_OK &&
                         value >= range->least && value <= range->most)) {
        *out_value = value;
        return CLI_EXIT_OK;
    }
    if (range->least >= range->most) {
        return cli_fail(CLI_EXIT_USAGE, "--%s can be %llu only%s%s, not '%s'", name,
                        (unsigned long long)range->most, before, of, text);
    }
    return cli_fail(CLI_EXIT_USAGE, "--%s takes a whole number from %llu to %llu%s%s, not '%s'",
                    name, (unsigned long long)range->least, (unsigned long long)range->most, before,
                    of, text);
}

enum cli_exit cli_option_u64(const struct cli *cli, enum cli_option option, uint64_t fallback,
                             uint64_t max, uint64_t *out_value)
{
    const struct cli_range range = {.most = max, .fallback = fallback};

    return cli_option_range(cli, option, &range, out_value);
}

enum cli_exit cli_option_real(const struct cli *cli, enum cli_option option, double fallback,
                              double max, double *out_value)
{
    const char *text = cli->values[option];
    double value = fallback;

    if (text != NULL) {
        char *end = NULL;
        value = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(value) || value < 0 || value > max) {
            return cli_fail(CLI_EXIT_USAGE, "--%s takes a number from 0 to %.10g, not '%s'",
                            option_names[option], max, text);
        }
    }
    *out_value = value;
    return CLI_EXIT_OK;
}
