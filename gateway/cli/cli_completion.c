// Completion of groups, commands and options in a shell, printed from the table of commands so that
// it can never lag behind it. One thread. The table in cli_commands.c names the three commands, for
// bash, zsh and fish. What they print is a script for a shell to source; texts in it are quoted for
// that shell.
#include "cli/base/cli.h"

#include <stdio.h>
#include <string.h>

#define GROUPS_MAX 32

// Distinct groups in the order of the table.
static unsigned list_groups(const char *out[GROUPS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < cli_command_count; i++) {
        bool known = false;
        for (unsigned k = 0; k < count; k++) {
            known = known || strcmp(out[k], cli_commands[i].group) == 0;
        }
        if (!known && count < GROUPS_MAX) {
            out[count++] = cli_commands[i].group;
        }
    }
    return count;
}

static void print_groups(void)
{
    const char *groups[GROUPS_MAX];
    unsigned count = list_groups(groups);
    for (unsigned i = 0; i < count; i++) {
        printf("%s%s", i > 0 ? " " : "", groups[i]);
    }
}

static void print_options(const struct cli_command *command)
{
    for (unsigned i = 0; i < CLI_OPTION_COUNT; i++) {
        if ((command->options >> i & 1) != 0) {
            printf("--%s ", cli_option_name((enum cli_option)i));
        }
    }
    printf("--help");
}

// Cases of a shell's `case`: "group) words=...;;" and "group/name) words=...;;".
static void print_cases(void)
{
    const char *groups[GROUPS_MAX];
    unsigned count = list_groups(groups);
    for (unsigned g = 0; g < count; g++) {
        printf("        %s) words=\"", groups[g]);
        for (unsigned i = 0; i < cli_command_count; i++) {
            if (strcmp(cli_commands[i].group, groups[g]) == 0) {
                printf("%s ", cli_commands[i].name);
            }
        }
        printf("\" ;;\n");
    }
    for (unsigned i = 0; i < cli_command_count; i++) {
        printf("        %s/%s) words=\"", cli_commands[i].group, cli_commands[i].name);
        print_options(&cli_commands[i]);
        printf("\" ;;\n");
    }
}

// Behind the group and the command come options, or files where no option was begun.
static const char bash_head[] = "# walle completion for bash: eval \"$(walle completion bash)\"\n"
                                "_walle() {\n"
                                "    local word=${COMP_WORDS[COMP_CWORD]} place words\n"
                                "    case $COMP_CWORD in\n"
                                "        1) place= ;;\n"
                                "        2) place=${COMP_WORDS[1]} ;;\n"
                                "        *) place=${COMP_WORDS[1]}/${COMP_WORDS[2]} ;;\n"
                                "    esac\n"
                                "    case $place in\n"
                                "        '') words=\"";
static const char bash_tail[] = "    esac\n"
                                "    if [[ $COMP_CWORD -gt 2 && $word != -* ]]; then\n"
                                "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
                                "    else\n"
                                "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                                "    fi\n"
                                "}\n"
                                "complete -o filenames -F _walle walle\n";

enum cli_exit cli_completion_bash(struct cli *cli)
{
    (void)cli;
    fputs(bash_head, stdout);
    print_groups();
    printf("\" ;;\n");
    print_cases();
    fputs(bash_tail, stdout);
    return CLI_EXIT_OK;
}

enum cli_exit cli_completion_zsh(struct cli *cli)
{
    printf("# walle completion for zsh: eval \"$(walle completion zsh)\"\n"
           "autoload -U +X bashcompinit && bashcompinit\n");
    return cli_completion_bash(cli);
}

static void print_quoted(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
}

enum cli_exit cli_completion_fish(struct cli *cli)
{
    const char *groups[GROUPS_MAX];
    unsigned count = list_groups(groups);
    (void)cli;
    printf("# walle completion for fish: walle completion fish | source\n");
    for (unsigned g = 0; g < count; g++) {
        printf("complete -c walle -n __fish_use_subcommand -f -a %s\n", groups[g]);
    }
    for (unsigned i = 0; i < cli_command_count; i++) {
        const struct cli_command *command = &cli_commands[i];
        printf("complete -c walle -n 'test (count (commandline -opc)) -eq 2; and "
               "__fish_seen_subcommand_from %s' -f -a %s -d '",
               command->group, command->name);
        print_quoted(command->summary);
        printf("'\n");
        for (unsigned o = 0; o < CLI_OPTION_COUNT; o++) {
            if ((command->options >> o & 1) != 0) {
                printf("complete -c walle -n '__fish_seen_subcommand_from %s; and "
                       "__fish_seen_subcommand_from %s' -l %s\n",
                       command->group, command->name, cli_option_name((enum cli_option)o));
            }
        }
    }
    return CLI_EXIT_OK;
}
