// The table of commands, made of cli_command_map.h: adding one is a row there and a function. Read
// by cli_main.c to find and explain a command, and by cli_completion.c; constant, and the one list
// of commands there is. A row has the words, the arguments, the options as a bit set, and examples;
// the text of an option is here too, where a command gives it a meaning of its own.
#include "cli/base/cli.h"

#include <string.h>

#define COMMAND_BITS (CLI_BITS_GATEWAY | CLI_BIT(REASON) | CLI_BIT(BY) | CLI_BIT(IF_REVISION))
#define GIT_BITS     (CLI_BIT(TAG) | CLI_BIT(BRANCH) | CLI_BIT(SCENARIO) | CLI_BIT(FOLDER))
#define PLAN_BITS                                                                                  \
    (CLI_BIT(STAGES) | CLI_BIT(TARGET) | CLI_BIT(MIN_SAMPLE) | CLI_BIT(MIN_DWELL) |                \
     CLI_BIT(MAX_FAILURE) | CLI_BIT(MIN_ANSWERED) | CLI_BIT(GUARD) | CLI_BIT(ON_FAIL) |            \
     TEST_BITS | CLI_BIT(RULE) | CLI_BIT(FLEET) | CLI_BIT(BASE_FAILURE) | CLI_BIT(PER_HOUR))
#define VERSION_BITS (CLI_BIT(VERSION) | CLI_BIT(MANIFEST) | CLI_BIT(BUILD))
#define TEST_BITS    (CLI_BIT(MAX_RISE) | CLI_BIT(ALPHA) | CLI_BIT(BETA))

#define ROOT_BITS                                                                                  \
    (CLI_BITS_GATEWAY | CLI_BIT(OUT) | CLI_BIT(KEY) | CLI_BIT(MEMBER) | CLI_BIT(RELEASE) |         \
     CLI_BIT(PREFIX) | CLI_BIT(THRESHOLD) | CLI_BIT(NARROW) | CLI_BIT(WIDE) |                      \
     CLI_BIT(WIDE_PERCENT) | CLI_BIT(LEASE) | CLI_BIT(EXPIRES))

const struct cli_command cli_commands[] = {
#define ROW(...) {__VA_ARGS__},
    CLI_COMMAND_MAP(ROW)
#undef ROW
};

const unsigned cli_command_count = sizeof(cli_commands) / sizeof(cli_commands[0]);

// Options that several commands have, where they are for something else than most of them.
static const struct {
    const char *group;
    const char *name; // NULL: every command of the group
    enum cli_option option;
    const char *doc;
} own_docs[] = {
    {"tunnel", "tail", CLI_OPTION_LIMIT, "At most this many (20; 1000 at most)"},
    {"tunnel", NULL, CLI_OPTION_DEVICE, "Only of this device, by as much of its id as is unique"},
    {"tunnel", NULL, CLI_OPTION_TASK, "Only of this task"},
    {"tunnel", NULL, CLI_OPTION_TIMEOUT, "With --follow: end after this long"},
    {"audit", "tail", CLI_OPTION_LIMIT, "The latest so many (20); with --after the next ones"},
    {"audit", NULL, CLI_OPTION_TIMEOUT, "With --follow: end after this long"},
    {"rollout", "list", CLI_OPTION_TASK, "Only rollouts of this task"},
    {"device", "why", CLI_OPTION_TASK, "The task to explain"},
    {"device", "why", CLI_OPTION_BUILD, "What it runs: a failure gets the text of its lines"},
    {"rollout", "explain", CLI_OPTION_BUILD,
     "What devices run: failures get the text of their lines"},
    {"root", "show", CLI_OPTION_OUT, "With --served: keep it in this new file, as it was signed"},
    {"root", "sign", CLI_OPTION_FROM, "The root that FILE follows, whose root keys sign as well"},
    {"root", NULL, CLI_OPTION_KEY, "Private root key that signs; repeat it when several sign"},
    {"root", NULL, CLI_OPTION_THRESHOLD, "Root keys that must sign (a majority)"},
    {"root", NULL, CLI_OPTION_EXPIRES, "The root is good this long (365)"},
    {"root", NULL, CLI_OPTION_REASON, "With --accept-keys: why; kept in the audit log"},
    {"rollout", "replay", CLI_OPTION_THRESHOLD, "Failed share to replay with, 0 to 1"},
    {"rollout", NULL, CLI_OPTION_EXPIRES, "Signed statements are good this long (90)"},
    {"token", NULL, CLI_OPTION_EXPIRES, "The token is good this long (ever)"},
    {"device", NULL, CLI_OPTION_EXPIRES, "The token is good this long (ever)"},
    {"device", NULL, CLI_OPTION_NAME, "What the token is called"},
    {"release", NULL, CLI_OPTION_REASON, "Why; kept in the audit log and those of its rollouts"},
    {"release", NULL, CLI_OPTION_BY, "Who; kept in the audit log and those of its rollouts (USER)"},
    {"clock", NULL, CLI_OPTION_REASON, "Why; kept in the audit log"},
    {"clock", NULL, CLI_OPTION_BY, "Who; kept in the audit log (USER)"},
    {"fallback", NULL, CLI_OPTION_ALPHA,
     "Chance that the choice is wrong, and that any interval is (0.05)"},
    {"fallback", NULL, CLI_OPTION_OUT, "A page with the trade-off as a picture"},
    {"model", NULL, CLI_OPTION_VERSION, "A number from 1"},
    {"model", NULL, CLI_OPTION_STAGES, "Stages (JSON) instead of shadows, 1, 10 and 50 percent"},
    {"model", NULL, CLI_OPTION_REASON, "Why; kept in the release and in the audit log"},
    {"task", "run", CLI_OPTION_WATCH, "Run again at each save in the folder, until interrupted"},
    {"task", "build", CLI_OPTION_VERSION,
     "Instead of task.json's; 9, 9.2, 2026.01 and 1.2.3.4 are versions too"},
};

const char *cli_option_doc(const struct cli_command *command, enum cli_option option)
{
    for (size_t i = 0; i < sizeof(own_docs) / sizeof(own_docs[0]); ++i) {
        if (own_docs[i].option == option && strcmp(own_docs[i].group, command->group) == 0 &&
            (own_docs[i].name == NULL || strcmp(own_docs[i].name, command->name) == 0)) {
            return own_docs[i].doc;
        }
    }
    return NULL;
}
