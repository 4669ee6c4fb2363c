// Draws what a threshold trades: the share of inputs that goes to the cloud against the share of
// right answers. Called by cli_fallback.c, on its one thread. One page with its picture inside: it
// can be sent to somebody as it is.
#include "cli/fallback/threshold_page.h"

#include "base/os/output_file.h"
#include "base/text/html_text.h"

#include <math.h>
#include <stdio.h>

// The plot, in the picture's own units.
#define LEFT   64.0
#define TOP    32.0
#define WIDTH  820.0
#define HEIGHT 380.0
#define TICKS  5

static const char page_head[] =
    "<!doctype html><html lang=en><head><meta charset=utf-8>\n"
    "<meta name=viewport content='width=device-width,initial-scale=1'>\n"
    "<title>Device or cloud: the threshold</title>\n<style>\n"
    ":root{color-scheme:light dark;--fg:#1c2430;--soft:#5b6675;--line:#d9dee6;--ours:#1766c2}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e4e8ee;--soft:#98a3b3;--line:#313946;"
    "--ours:#6db0ff}}\n"
    "body{color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:960px;"
    "padding:24px}.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:right;padding:4px 10px 4px 0;border-bottom:1px solid var(--line)}"
    "tr.chosen{font-weight:600}.note,text{color:var(--soft);fill:var(--soft)}"
    "svg{width:100%;height:auto;display:block}text{font-size:13px}.grid{stroke:var(--line)}"
    ".band{fill:var(--ours);opacity:.18}.curve{fill:none;stroke:var(--ours);stroke-width:2}"
    ".choice{fill:var(--ours)}.target{stroke:var(--fg);stroke-dasharray:2 "
    "3}.cloud{stroke:var(--soft);stroke-dasharray:5 "
    "4}</style></head><body>\n";

struct plot {
    const struct threshold_choice *choice;
    FILE *file;
    double low; // accuracy at the foot of the plot
    double high;
};

static double part(uint64_t count, uint64_t total)
{
    return (double)count / (double)total;
}

static double across(const struct plot *plot, size_t index)
{
    const struct pol_cuts *cuts = plot->choice->cuts;
    return LEFT + WIDTH * part(cuts->at[index].sent, cuts->total);
}

static double above(const struct plot *plot, double accuracy)
{
    return TOP + HEIGHT * (plot->high - accuracy) / (plot->high - plot->low);
}

static struct plot plot_of(const struct threshold_choice *choice, FILE *file)
{
    struct plot plot = {.choice = choice, .file = file, .low = 1, .high = 0};
    for (size_t i = 0; i < POL_CUTS; i++) {
        struct pol_interval interval = pol_cut_accuracy(choice->cuts, i, choice->alpha);
        plot.low = fmin(plot.low, interval.low);
        plot.high = fmax(plot.high, interval.high);
    }
    plot.low = fmin(plot.low, choice->target); // of a number and NAN the number is taken
    plot.high = fmax(plot.high, choice->target);
    double room = fmax((plot.high - plot.low) * 0.05, 0.001);
    plot.low = fmax(plot.low - room, 0);
    plot.high = fmin(plot.high + room, 1);
    return plot;
}

static void axes_write(const struct plot *plot)
{
    for (int i = 0; i <= TICKS; i++) {
        double accuracy = plot->low + (plot->high - plot->low) * i / TICKS;
        double y = above(plot, accuracy);
        double x = LEFT + WIDTH * i / TICKS;
        (void)fprintf(plot->file,
                      "<line class=grid x1=%.1f x2=%.1f y1=%.1f y2=%.1f />"
                      "<text x=%.1f y=%.1f text-anchor=end>%.1f&nbsp;%%</text>"
                      "<text x=%.1f y=%.1f text-anchor=middle>%d&nbsp;%%</text>\n",
                      LEFT, LEFT + WIDTH, y, y, LEFT - 8, y + 4, accuracy * 100, x,
                      TOP + HEIGHT + 20, i * 100 / TICKS);
    }
    (void)fprintf(plot->file,
                  "<text x=4 y=14>right answers</text><text x=%.1f y=%.1f text-anchor=middle>share "
                  "of inputs sent to the cloud</text>\n",
                  LEFT + WIDTH / 2, TOP + HEIGHT + 42);
}

static void curve_write(const struct plot *plot)
{
    const struct threshold_choice *choice = plot->choice;
    (void)fputs("<polygon class=band points='", plot->file);
    for (size_t i = 0; i < 2 * (size_t)POL_CUTS; i++) { // there along the top, back along the foot
        size_t index = i < POL_CUTS ? i : 2 * (size_t)POL_CUTS - 1 - i;
        struct pol_interval interval = pol_cut_accuracy(choice->cuts, index, choice->alpha);
        (void)fprintf(plot->file, "%.1f,%.1f ", across(plot, index),
                      above(plot, i < POL_CUTS ? interval.high : interval.low));
    }
    (void)fputs("'/><polyline class=curve points='", plot->file);
    for (size_t i = 0; i < POL_CUTS; i++) {
        (void)fprintf(plot->file, "%.1f,%.1f ", across(plot, i),
                      above(plot, part(choice->cuts->at[i].right, choice->cuts->total)));
    }
    double cloud = above(plot, part(choice->cuts->at[POL_CUTS - 1].right, choice->cuts->total));
    (void)fprintf(plot->file,
                  "'/><line class=cloud x1=%.1f x2=%.1f y1=%.1f y2=%.1f /><text x=%.1f y=%.1f>the "
                  "cloud alone</text>\n",
                  LEFT, LEFT + WIDTH, cloud, cloud, LEFT + 6, cloud - 6);
    if (!isnan(choice->target)) {
        double y = above(plot, choice->target);
        (void)fprintf(plot->file,
                      "<line class=target x1=%.1f x2=%.1f y1=%.1f y2=%.1f /><text x=%.1f y=%.1f "
                      "text-anchor=end>what is wanted</text>\n",
                      LEFT, LEFT + WIDTH, y, y, LEFT + WIDTH - 6, y - 6);
    }
    if (choice->index < POL_CUTS) {
        (void)fprintf(
            plot->file, "<circle class=choice r=6 cx=%.1f cy=%.1f />\n",
            across(plot, choice->index),
            above(plot, part(choice->cuts->at[choice->index].right, choice->cuts->total)));
    }
}

static void row_write(const struct threshold_choice *choice, size_t index, FILE *file)
{
    const struct pol_cuts *cuts = choice->cuts;
    const struct pol_cut *cut = &cuts->at[index];
    struct pol_interval right = pol_cut_accuracy(cuts, index, choice->alpha);
    struct pol_interval sent = pol_cut_share(cuts, index, choice->alpha);
    (void)fprintf(
        file,
        "<tr%s><td>%s%.4f<td>%.2f&nbsp;%%<td>%.2f to %.2f&nbsp;%%<td>%.2f&nbsp;%%<td>%.2f "
        "to %.2f&nbsp;%%</tr>\n",
        index == choice->index ? " class=chosen" : "", index == POL_CUTS - 1 ? "above " : "",
        fmin(cut->confidence_ppm / 1e6, 1), 100 * part(cut->sent, cuts->total), 100 * sent.low,
        100 * sent.high, 100 * part(cut->right, cuts->total), 100 * right.low, 100 * right.high);
}

static void table_write(const struct threshold_choice *choice, FILE *file)
{
    (void)fputs("<h2>Every tenth threshold</h2>\n<div class=wide><table><tr><th>stands from<th>sent"
                "<th>interval<th>right<th>interval</tr>\n",
                file);
    for (size_t i = 0; i < POL_CUTS; i++) {
        if (i % 10 == 0 || i == choice->index || i == POL_CUTS - 1) {
            row_write(choice, i, file);
        }
    }
    (void)fputs("</table></div>\n", file);
}

static void page_write(const struct threshold_choice *choice, FILE *file)
{
    struct plot plot = plot_of(choice, file);
    (void)fputs(page_head, file);
    (void)fputs("<h1>Device or cloud</h1>\n<p><strong>", file);
    base_html_text(file, choice->answer);
    (void)fputs("</strong></p>\n<p>Asked for: ", file);
    base_html_text(file, choice->aim);
    (void)fprintf(file, ". Of %llu labelled inputs, from ",
                  (unsigned long long)choice->cuts->total);
    base_html_text(file, choice->from);
    (void)fprintf(
        file,
        ".</p>\n<svg viewBox='0 0 %.0f %.0f' role=img aria-label='accuracy over the share "
        "that is sent'>\n",
        LEFT + WIDTH + 24, TOP + HEIGHT + 54);
    axes_write(&plot);
    curve_write(&plot);
    (void)fprintf(file,
                  "</svg>\n<p class=note>Right answers over the share of inputs that goes to the "
                  "cloud, one point a threshold. The band holds for all of them together: it is "
                  "wrong somewhere with a chance of at most %g&nbsp;%%. It holds for inputs like "
                  "these; where users are others, or either model learnt from these inputs, it "
                  "does not.</p>\n<p class=note>The threshold goes into the task's own "
                  "<code>config</code> (task.json), where its script reads it as "
                  "<code>walle.config</code>; there is no call for inference in the cloud "
                  "yet.</p>\n",
                  choice->alpha * 100);
    table_write(choice, file);
    (void)fputs("</body></html>\n", file);
}

enum base_status threshold_page_write(const struct threshold_choice *choice, const char *path,
                                      struct base_error *error)
{
    struct base_output_file out;
    enum base_status status = base_output_open(&out, path, error);
    if (status != BASE_OK) {
        return status;
    }
    page_write(choice, out.file);
    return base_output_close(&out, BASE_OK, error);
}
