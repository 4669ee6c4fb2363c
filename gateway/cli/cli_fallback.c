// Command `fallback threshold`: from which confidence on a device's own result stands, out of
// labelled scores of the small and the big model. The table in cli_commands.c names it; one thread.
// What is chosen, and why that may be said, is the policy's (policy/fallback/fallback.h); here it
// is read, put in words and drawn.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/fallback/scores_file.h"
#include "cli/fallback/threshold_page.h"

#include <math.h>
#include <stdio.h>

#define ALPHA 0.05

struct aim {
    enum pol_aim kind;
    double value;
};

// One of --accuracy, --within and --share.
static enum cli_exit read_aim(const struct cli *cli, struct aim *out)
{
    static const enum cli_option options[POL_AIM_COUNT] = {
        [POL_AIM_ACCURACY] = CLI_OPTION_ACCURACY,
        [POL_AIM_WITHIN] = CLI_OPTION_WITHIN,
        [POL_AIM_SHARE] = CLI_OPTION_SHARE,
    };
    int given = 0;
    for (int i = 0; i < POL_AIM_COUNT; i++) {
        if (!cli_given(cli, options[i])) {
            continue;
        }
        enum cli_exit code = cli_option_real(cli, options[i], 0, 1, &out->value);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        out->kind = (enum pol_aim)i;
        given++;
    }
    if (given == 0) {
        return cli_fail(CLI_EXIT_USAGE,
                        "say what is wanted: one of --accuracy, --within and --share");
    }
    return given == 1 ? CLI_EXIT_OK
                      : cli_fail(CLI_EXIT_USAGE, "one of --accuracy, --within and --share, not %s",
                                 given == 2 ? "two" : "all three");
}

static double percent(uint64_t count, uint64_t total)
{
    return 100 * (double)count / (double)total;
}

static void say_aim(const struct aim *aim, struct threshold_choice *choice)
{
    static const struct {
        const char *before;
        const char *behind;
    } texts[POL_AIM_COUNT] = {
        [POL_AIM_ACCURACY] = {"at least", "% of answers right"},
        [POL_AIM_WITHIN] = {"at most", "points of accuracy below the cloud alone"},
        [POL_AIM_SHARE] = {"at most", "% of inputs sent"},
    };
    (void)snprintf(choice->aim, sizeof(choice->aim), "%s %g %s", texts[aim->kind].before,
                   aim->value * 100, texts[aim->kind].behind);
}

// Below which accuracy the choice is not to fall; NAN: none was asked for.
static double target_of(const struct aim *aim, const struct pol_cuts *cuts)
{
    double cloud = percent(cuts->at[POL_CUTS - 1].right, cuts->total) / 100;
    return aim->kind == POL_AIM_ACCURACY ? aim->value
           : aim->kind == POL_AIM_WITHIN ? fmax(cloud - aim->value, 0)
                                         : (double)NAN;
}

// Why nothing was chosen. With every input sent nothing is lost to the cloud: if that is not shown,
// it is for want of scores.
static void say_nothing_shown(const struct aim *aim, struct threshold_choice *choice)
{
    const struct pol_cuts *cuts = choice->cuts;
    unsigned long long total = cuts->total;
    if (aim->kind == POL_AIM_WITHIN && aim->value > 0) {
        (void)snprintf(choice->answer, sizeof(choice->answer),
                       "%llu score%s too few to show it; send everything until there are more",
                       total, total == 1 ? " is" : "s are");
    } else if (aim->kind == POL_AIM_WITHIN) {
        (void)snprintf(choice->answer, sizeof(choice->answer),
                       "No number of scores shows that nothing is lost; ask for more than 0, or "
                       "send everything");
    } else {
        (void)snprintf(choice->answer, sizeof(choice->answer),
                       "These scores do not show it, not even with every input sent: the cloud "
                       "alone has %.2f %% right of %llu",
                       percent(cuts->at[POL_CUTS - 1].right, total), total);
    }
}

static void say_answer(const struct aim *aim, struct threshold_choice *choice)
{
    const struct pol_cuts *cuts = choice->cuts;
    if (choice->index == POL_CUTS) {
        say_nothing_shown(aim, choice);
        return;
    }
    const struct pol_cut *cut = &cuts->at[choice->index];
    (void)snprintf(choice->answer, sizeof(choice->answer),
                   "The device's result stands from a confidence of %.4f on%s: %.1f %% are sent, "
                   "%.2f %% right",
                   fmin(cut->confidence_ppm / 1e6, 1),
                   cut->confidence_ppm == POL_FALLBACK_ALWAYS  ? ", and not then: all is sent"
                   : cut->confidence_ppm == POL_FALLBACK_NEVER ? ": always"
                   : aim->kind == POL_AIM_SHARE                ? ""
                                                               : ", as these scores show",
                   percent(cut->sent, cuts->total), percent(cut->right, cuts->total));
}

static json_t *interval_json(struct pol_interval interval)
{
    return json_pack("[f, f]", interval.low, interval.high);
}

static json_t *cut_json(const struct threshold_choice *choice, size_t index)
{
    const struct pol_cuts *cuts = choice->cuts;
    const struct pol_cut *cut = &cuts->at[index];
    double total = (double)cuts->total;
    return json_pack("{s:f, s:f, s:o, s:f, s:o}", "threshold", cut->confidence_ppm / 1e6, "sent",
                     (double)cut->sent / total, "sent_interval",
                     interval_json(pol_cut_share(cuts, index, choice->alpha)), "accuracy",
                     (double)cut->right / total, "accuracy_interval",
                     interval_json(pol_cut_accuracy(cuts, index, choice->alpha)));
}

static json_t *choice_json(const struct threshold_choice *choice)
{
    json_t *curve = json_array();
    for (size_t i = 0; i < POL_CUTS; i++) {
        (void)json_array_append_new(curve, cut_json(choice, i));
    }
    return json_pack(
        "{s:I, s:f, s:s, s:o, s:o, s:o, s:o}", "inputs", (json_int_t)choice->cuts->total, "alpha",
        choice->alpha, "asked", choice->aim, "chosen",
        choice->index < POL_CUTS ? cut_json(choice, choice->index) : json_null(), "device_alone",
        cut_json(choice, 0), "cloud_alone", cut_json(choice, POL_CUTS - 1), "curve", curve);
}

static void choice_print(const struct threshold_choice *choice)
{
    const struct pol_cuts *cuts = choice->cuts;
    printf("%s.\n  asked         %s\n", choice->answer, choice->aim);
    printf("  device alone  %.2f %% right\n  cloud alone   %.2f %% right, of %llu inputs\n",
           percent(cuts->at[0].right, cuts->total),
           percent(cuts->at[POL_CUTS - 1].right, cuts->total), (unsigned long long)cuts->total);
    if (choice->index < POL_CUTS) {
        struct pol_interval right = pol_cut_accuracy(cuts, choice->index, choice->alpha);
        struct pol_interval sent = pol_cut_share(cuts, choice->index, choice->alpha);
        printf("  intervals     sent %.2f to %.2f %%, right %.2f to %.2f %% (%g %% confidence, of "
               "all thresholds together)\n",
               100 * sent.low, 100 * sent.high, 100 * right.low, 100 * right.high,
               100 * (1 - choice->alpha));
    }
}

enum cli_exit cli_fallback_threshold(struct cli *cli)
{
    struct pol_cuts cuts;
    struct base_error error = {0};
    struct threshold_choice choice = {.cuts = &cuts, .from = cli->args[0]};
    struct aim aim = {0};
    enum cli_exit code = read_aim(cli, &aim);

    if (code != CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_ALPHA, ALPHA, 0.5, &choice.alpha)) != CLI_EXIT_OK) {
        return code;
    }
    if (choice.alpha <= 0) {
        return cli_fail(CLI_EXIT_USAGE, "--alpha is a chance above 0");
    }
    if (scores_file_read(choice.from, &cuts, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: %s", choice.from, error.text);
    }
    choice.index = pol_cuts_choose(&cuts, aim.kind, aim.value, choice.alpha);
    choice.target = target_of(&aim, &cuts);
    say_aim(&aim, &choice);
    say_answer(&aim, &choice);
    const char *page = cli->values[CLI_OPTION_OUT];
    if (page != NULL && threshold_page_write(&choice, page, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: %s", page, error.text);
    }
    code = choice.index < POL_CUTS ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    if (cli->json) {
        return cli_show_take(CLI_EXIT_OK, choice_json(&choice)) == CLI_EXIT_OK ? code
                                                                               : CLI_EXIT_LOCAL;
    }
    choice_print(&choice);
    if (page != NULL) {
        printf("  page          %s\n", page);
    }
    return code;
}
