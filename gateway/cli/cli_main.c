// Program `walle`: finds the command in the table, parses its options with argp, runs it, and exits
// with its code. One thread.
//
// Parsing happens twice: a first pass finds where the command's words start (options every command
// takes may stand before them), the second reads the rest with exactly the options of that command.
#include "cli/base/cli.h"
#include "base/os/process_start.h"
#include "base/text/likeness.h"
#include "base/text/near_option.h"
#include "base/text/terminal.h"
#include "cli/base/cli_http.h"
#include "cli/task/cli_id.h"
#include "cli/base/cli_json.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BASE    0x100 // options without a short key
#define DOC_BYTES   8192
#define LINES_BYTES 16384

#define LIST_INDENT  27 // of the summaries in a list of commands
#define LIST_COLUMNS 108

static const struct argp_option all_options[CLI_OPTION_COUNT] = {
#define CLI_OPTION_ROW(name, key, text, argument, doc)                                             \
    {text, (key) != 0 ? (key) : KEY_BASE + CLI_OPTION_##name, argument, 0, doc, 0},
    CLI_OPTION_MAP(CLI_OPTION_ROW)
#undef CLI_OPTION_ROW
};

struct parse {
    struct cli *cli;
    const struct cli_command *command; // NULL in the first pass
    int words_at;                      // first pass: index of the command's first word, 0: none
    bool help;
};

// All values of an option that repeats, one a line; they live as long as the process.
static const char *joined(const char *before, const char *text)
{
    static char lines[LINES_BYTES];
    static size_t used;
    char *at = &lines[used];
    int size = snprintf(at, sizeof(lines) - used, "%s\n%s", before, text);

    if (size < 0 || (size_t)size >= sizeof(lines) - used) {
        exit(cli_fail(CLI_EXIT_USAGE, "too many values of one option"));
    }
    used += (size_t)size + 1;
    return at;
}

static bool take_option(struct cli *cli, int key, const char *text)
{
    for (unsigned i = 0; i < CLI_OPTION_COUNT; ++i) {
        if (all_options[i].key == key) {
            const char *before = cli->values[i];
            bool more = before != NULL && cli_option_repeats((enum cli_option)i);
            cli->values[i] = more ? joined(before, text) : (text != NULL ? text : "");
            return true;
        }
    }
    return false;
}

static error_t parse_first(int key, char *text, struct argp_state *state)
{
    struct parse *parse = state->input;

    if (key == ARGP_KEY_ARG) {
        parse->words_at = state->next - 1;
        state->next = state->argc;
        return 0;
    }
    return take_option(parse->cli, key, text) ? 0 : ARGP_ERR_UNKNOWN;
}

static error_t parse_command(int key, char *text, struct argp_state *state)
{
    struct parse *parse = state->input;
    struct cli *cli = parse->cli;

    if (key == ARGP_KEY_ARG) {
        if (cli->arg_count >= parse->command->args_max || cli->arg_count >= CLI_ARGS_MAX) {
            argp_error(state, "'%s' is one argument too many", text);
            return EINVAL;
        }
        cli->args[cli->arg_count++] = text;
        return 0;
    }
    if (key == ARGP_KEY_END) {
        if (cli->arg_count < parse->command->args_min) {
            argp_error(state, "%s is missing", parse->command->arguments);
            return EINVAL;
        }
        return 0;
    }
    return take_option(cli, key, text) ? 0 : ARGP_ERR_UNKNOWN;
}

// Of a command those that it has, in its own words; without one those of every command.
static uint32_t options_of(const struct cli_command *command,
                           struct argp_option out[CLI_OPTION_COUNT + 1])
{
    unsigned __int128 bits = command != NULL ? command->options : CLI_BITS_GATEWAY;
    uint32_t count = 0;

    for (unsigned i = 0; i < CLI_OPTION_COUNT; ++i) {
        if ((bits >> i & 1) != 0) {
            const char *doc = command != NULL ? cli_option_doc(command, (enum cli_option)i) : NULL;
            out[count] = all_options[i];
            out[count].doc = doc != NULL ? doc : all_options[i].doc;
            count++;
        }
    }
    memset(&out[count], 0, sizeof(out[count]));
    return count;
}

// One line, or more that begin where the first did: argp would begin them at the margin.
static void print_summary(FILE *file, const char *text)
{
    size_t column = LIST_INDENT;

    while (*text != '\0') {
        size_t size = strcspn(text, " \n");
        if (column > LIST_INDENT && column + 1 + size > LIST_COLUMNS) {
            fprintf(file, "\n%*s", LIST_INDENT, "");
            column = LIST_INDENT;
        }
        fprintf(file, "%s%.*s", column > LIST_INDENT ? " " : "", (int)size, text);
        column += size + (column > LIST_INDENT ? 1 : 0);
        text += size + (text[size] != '\0' ? 1 : 0);
    }
    fputc('\n', file);
}

// Lines "  group name ARGUMENTS   summary" of one group, or of all.
static void list_commands(FILE *file, const char *group)
{
    for (unsigned i = 0; i < cli_command_count; ++i) {
        const struct cli_command *command = &cli_commands[i];
        if (group == NULL || strcmp(group, command->group) == 0) {
            char words[64];
            snprintf(words, sizeof(words), "%s %s %s", command->group, command->name,
                     command->arguments);
            fprintf(file, "  %-*s ", LIST_INDENT - 3, words);
            print_summary(file, command->summary);
        }
    }
}

static char *top_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) {
        return (char *)(uintptr_t)text;
    }
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    if (file == NULL) {
        return NULL;
    }
    fputs("Commands:\n", file);
    list_commands(file, NULL);
    fputs(
        "\n'walle GROUP COMMAND --help' shows the options and examples of one.\n"
        "Exit codes: 0 done; 1 the rollout or release failed, was rolled back or killed;\n2 usage; "
        "3 no gateway reached; 4 refused by the gateway; 5 a local file, key or task is at "
        "fault;\n6 --timeout passed.",
        file);
    fclose(file);
    return out; // argp frees it
}

static int find_words(int argc, char **argv, struct cli *cli)
{
    struct argp_option options[CLI_OPTION_COUNT + 1];
    const struct argp argp = {options,
                              parse_first,
                              "GROUP COMMAND [ARGUMENTS]",
                              "walle -- releases ML tasks to devices in stages.\v",
                              NULL,
                              top_help,
                              NULL};
    struct parse parse = {.cli = cli};

    options_of(NULL, options);
    argp_err_exit_status = CLI_EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &parse) != 0) {
        exit(CLI_EXIT_USAGE);
    }
    if (parse.words_at == 0) {
        fputs("walle: which command?\n", stderr);
        list_commands(stderr, NULL);
        exit(CLI_EXIT_USAGE);
    }
    return parse.words_at;
}

// The command of a group that has one alone: its name need not be said. NULL: it has more.
static const struct cli_command *only_command(const char *group)
{
    const struct cli_command *found = NULL;
    for (unsigned i = 0; i < cli_command_count; ++i) {
        if (strcmp(cli_commands[i].group, group) == 0) {
            if (found != NULL) {
                return NULL;
            }
            found = &cli_commands[i];
        }
    }
    return found;
}

// The word that is nearly this one; NULL: none is. Of a group its commands, else the groups.
static const char *nearest(const char *word, const char *group)
{
    struct base_nearest nearest = base_nearest_to(base_str_of(word));

    for (unsigned i = 0; i < cli_command_count; ++i) {
        const struct cli_command *command = &cli_commands[i];
        if (group == NULL || strcmp(group, command->group) == 0) {
            base_nearest_offer(&nearest, group != NULL ? command->name : command->group);
        }
    }
    return nearest.found;
}

static void list_groups(FILE *file)
{
    fputs("groups of commands:", file);
    for (unsigned i = 0; i < cli_command_count; ++i) {
        bool listed = false;
        for (unsigned k = 0; k < i && !listed; ++k) {
            listed = strcmp(cli_commands[k].group, cli_commands[i].group) == 0;
        }
        fprintf(file, "%s%s", listed ? "" : " ", listed ? "" : cli_commands[i].group);
    }
    fputs("\n'walle GROUP --help' lists the commands of one, 'walle --help' all of them\n", file);
}

static void no_such_command(const char *group, const char *name, bool known)
{
    const char *meant = known ? nearest(name, group) : nearest(group, NULL);

    if (!known) {
        fprintf(stderr, "walle: no command group '%s'", group);
    } else {
        fprintf(stderr, "walle: no command '%s %s'", group, name);
    }
    if (meant != NULL) {
        fprintf(stderr, "; did you mean 'walle %s%s%s'?", known ? group : meant, known ? " " : "",
                known ? meant : "");
    }
    fputc('\n', stderr);
    if (known) {
        list_commands(stderr, group);
    } else {
        list_groups(stderr);
    }
    exit(CLI_EXIT_USAGE);
}

static const struct cli_command *find_command(const char *group, const char *name)
{
    bool known = false;

    for (unsigned i = 0; i < cli_command_count; ++i) {
        if (strcmp(cli_commands[i].group, group) == 0) {
            known = true;
            if (name != NULL && strcmp(cli_commands[i].name, name) == 0) {
                return &cli_commands[i];
            }
        }
    }
    if (known && name != NULL && strcmp(name, "--help") == 0) {
        list_commands(stdout, group);
        exit(CLI_EXIT_OK);
    }
    if (known && name == NULL) {
        fprintf(stderr, "walle: which command of '%s'? There are:\n", group);
        list_commands(stderr, group);
        exit(CLI_EXIT_USAGE);
    }
    no_such_command(group, name, known);
    return NULL;
}

static void parse_rest(const struct cli_command *command, int argc, char **argv, struct cli *cli)
{
    static char doc[DOC_BYTES];
    static char program[64];
    struct argp_option options[CLI_OPTION_COUNT + 1];
    bool any = options_of(command, options) > 0;
    // A list without options is no list: argp would lose the memory it makes for one.
    const struct argp argp = {
        any ? options : NULL, parse_command, command->arguments, doc, NULL, NULL, NULL};
    struct parse parse = {.cli = cli, .command = command};

    snprintf(doc, sizeof(doc), "%s\vExamples:\n%s", command->summary, command->examples);
    snprintf(program, sizeof(program), "walle %s %s", command->group, command->name);
    argv[0] = program;
    program_invocation_name = program;
    program_invocation_short_name = program;
    if (!base_options_known(any ? options : NULL, argc, argv)) {
        exit(CLI_EXIT_USAGE);
    }
    if (argp_parse(&argp, argc, argv, 0, NULL, &parse) != 0) {
        exit(CLI_EXIT_USAGE);
    }
}

static void take_format(struct cli *cli)
{
    const char *format = cli->values[CLI_OPTION_FORMAT];

    if (format == NULL || strcmp(format, "text") == 0) {
        return;
    }
    if (strcmp(format, "json") != 0) {
        exit(cli_fail(CLI_EXIT_USAGE, "--output is text or json, not '%s'", format));
    }
    cli->json = true;
}

int main(int argc, char **argv)
{
    base_process_start(CLI_EXIT_LOCAL);
    base_terminal_guard();
    static struct cli cli;

    if (base_process_version(argc, argv, "walle")) { // behind a command it is the one to release
        return CLI_EXIT_OK;
    }
    (void)setenv("ARGP_HELP_FMT", "rmargin=110", 0);
    int at = find_words(argc, argv, &cli);
    const char *name = at + 1 < argc ? argv[at + 1] : NULL;
    const struct cli_command *command =
        name == NULL || name[0] == '-' ? only_command(argv[at]) : NULL;

    if (command == NULL) {
        command = find_command(argv[at], name);
        at++;
    }
    parse_rest(command, argc - at, argv + at, &cli);
    take_format(&cli);
    cli_json_seed();
    enum cli_exit code = cli_id_resolve(&cli, command);
    if (code == CLI_EXIT_OK) {
        code = command->run(&cli);
    }
    cli_http_done();
    return (int)code;
}
