// Commands `clock ...`: whether the gateway believes its wall clock, and the word that it may. The
// table in cli_commands.c names them; one thread. Each is one call of /api/v1/clock: what doubt
// means is decided in the gateway (clock_guard.c), here it is put in words.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/duration.h"

#include <stdio.h>

enum cli_exit cli_clock_show(struct cli *cli)
{
    json_t *answer = NULL;
    enum cli_exit code = cli_api_call(cli, "GET", "/api/v1/clock", NULL, &answer);

    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, answer);
    }
    char wall[TIME_TEXT_MAX];
    char own[TIME_TEXT_MAX];
    char last_signed[TIME_TEXT_MAX];
    printf("%s: wall clock %s, the gateway goes by %s, signs by %s\n",
           cli_json_text(answer, "state", "?"),
           time_text(cli_json_u64(answer, "wall_s"), true, wall),
           time_text(cli_json_u64(answer, "time_s"), true, own),
           time_text(cli_json_u64(answer, "signed_s"), true, last_signed));
    json_decref(answer);
    return code;
}

enum cli_exit cli_clock_accept(struct cli *cli)
{
    json_t *answer = NULL;

    if (!cli_gives_reason(cli)) {
        return cli_fail(CLI_EXIT_USAGE, "--reason TEXT is missing: why the wall clock is right");
    }
    json_t *body = json_object();
    cli_add_who(cli, body);
    enum cli_exit code = cli_api_call(cli, "POST", "/api/v1/clock/accept", body, &answer);
    json_decref(body);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, answer);
    }
    long long moved_s = (long long)json_integer_value(json_object_get(answer, "moved_s"));
    unsigned long long paused = cli_json_u64(answer, "paused");
    printf("accepted: the gateway's time moved by %lld s\n", moved_s);
    if (paused > 0) {
        printf("%llu rollouts are paused: look at them, then 'walle rollout resume ID'\n", paused);
    }
    json_decref(answer);
    return code;
}
