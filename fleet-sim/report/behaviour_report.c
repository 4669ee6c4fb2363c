// The part of the reports about behaviour: how often triggers fire, what that costs a phone, what
// comes up the tunnel, and whether every record is accounted for. Coordinator's thread, once. It
// has three doors because there are three readers: run_json.c takes an object for run.json,
// report_html.c a section of the page, run_summary.c lines for the terminal. All three read one
// merged tally, so they cannot differ.
#include "report/behaviour_report.h"

#include "base/alloc.h"
#include "base/text/html_text.h"
#include "pipeline/declaration_check.h"
#include "report/report_svg.h"

#include <string.h>

#define TEXT_MAX   256
#define SERIES_MAX 5

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static const char *const loss_names[WIRE_TUNNEL_LOSS_END] = {
    "none", "quota", "expired", "rejected", "split", "policy", "damaged", "starts"};

static uint64_t starts_of(const struct sim_tally *tally, uint64_t task_id, const char **out_name)
{
    for (uint32_t i = 0; i < tally->task_count; i++) {
        if (tally->tasks[i].task_id == task_id) {
            *out_name = tally->tasks[i].name;
            return tally->tasks[i].starts;
        }
    }
    *out_name = "?";
    return 0;
}

// ---- run.json

static json_t *triggers_json(const struct sim_tally *tally)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < tally->trigger_count; i++) {
        const struct sim_trigger_tally *t = &tally->triggers[i];
        char miss[TEXT_MAX];
        const char *name;
        bool never = sim_trigger_miss(t, miss, sizeof(miss));
        (void)starts_of(tally, t->task_id, &name);
        json_t *steps = json_array();
        for (uint32_t k = 0; k < t->step_count; k++) {
            (void)json_array_append_new(steps, number(t->step_events[k]));
        }
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:s, s:o, s:o, s:f, s:o, s:o}", "task", name, "trigger",
                      number(t->trigger), "pattern", t->text, "sessions", number(t->sessions),
                      "fired", number(t->matches), "per_session", ratio(t->matches, t->sessions),
                      "step_events", steps, "miss", never ? json_string(miss) : json_null()));
    }
    return list;
}

// Means of the runs whose phases are known; null: of none.
static json_t *phases_json(const struct sim_task_tally *t)
{
    return t->phased == 0 ? json_null()
                          : json_pack("{s:o, s:o, s:o}", "prepare_us",
                                      number(t->phases.prepare_us / t->phased), "model_us",
                                      number(t->phases.model_us / t->phased), "finish_us",
                                      number(t->phases.finish_us / t->phased));
}

static json_t *tasks_json(const struct sim_tally *tally)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < tally->task_count; i++) {
        const struct sim_task_tally *t = &tally->tasks[i];
        const struct dev_trigger_certificate *c = &t->certificate;
        json_t *certificate =
            c->sources == 0
                ? json_null()
                : json_pack("{s:o, s:o, s:o}", "work", number(c->work), "bytes",
                            number(dev_declaration_trigger_bytes(c)), "live", number(c->live_max));
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "task",
                            t->name, "starts", number(t->starts), "ran", number(t->ran), "failed",
                            number(t->failed), "records", number(t->records), "record_bytes",
                            number(t->record_bytes), "heap_peak_bytes", number(t->heap_peak_bytes),
                            "left_out", number(t->left_out), "run_p50_us",
                            number(base_hist_quantile(&t->run_us, 0.5)), "run_p99_us",
                            number(base_hist_quantile(&t->run_us, 0.99)), "phases", phases_json(t),
                            "certificate", certificate));
    }
    return list;
}

static json_t *law_json(const struct sim_run_result *result)
{
    const struct sim_law *law = &result->law;
    json_t *classes = json_array();
    if (result->options->local) {
        json_decref(classes);
        return json_null();
    }
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        const struct sim_law_class *c = &law->classes[i];
        (void)json_array_append_new(
            classes, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "class", number(i), "offered",
                               number(c->offered), "produced", number(c->produced), "durable",
                               number(c->durable), "queued", number(c->queued), "lost",
                               number(c->lost), "gone_with_kills", number(c->gone)));
    }
    return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "holds", law->broken == 0, "checked",
                     number(law->checked), "broken", number(law->broken), "stored_bytes",
                     number(law->stored_bytes), "taken",
                     law->told ? number(law->taken) : json_null(), "classes", classes);
}

// Null: in virtual time nothing of the host's is measured.
static json_t *event_part(const struct sim_tally *tally, double quantile)
{
    return tally->event_us.count > 0 ? number(base_hist_quantile(&tally->event_us, quantile))
                                     : json_null();
}

json_t *sim_behaviour_json(const struct sim_run_result *result)
{
    const struct sim_behaviour_sums *s = &result->counters.behaviour;
    const struct sim_tally *tally = result->tally;
    if (tally == NULL) {
        return json_null();
    }
    json_t *totals = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sessions",
        number(s->sessions), "sessions_put_off", number(s->sessions_put_off), "sessions_killed",
        number(s->sessions_killed), "devices", number(s->devices), "events", number(s->events),
        "kept", number(s->kept), "matches", number(s->matches), "starts", number(s->starts),
        "starts_dropped", number(s->starts_dropped), "starts_again", number(s->starts_again),
        "suppressed", number(s->suppressed), "records", number(s->records), "record_bytes",
        number(s->record_bytes), "uploads_refused", number(s->uploads_refused));
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "records_against_schema",
        number(s->records_against), "features", number(s->features), "features_refused",
        number(s->features_refused), "sent_bytes", number(s->sent_bytes), "raw_bytes",
        number(s->raw_bytes), "batches", number(s->batches), "batches_resent",
        number(s->batches_resent), "durable", number(s->durable), "lost", number(s->lost),
        "commits", number(s->commits), "played_ms", number(s->played_ms));
    (void)json_object_update(totals, more);
    json_decref(more);
    json_t *cost =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "work_max", number(tally->peaks.work),
                  "trigger_bytes", number(tally->peaks.trigger_bytes), "live_max",
                  number(tally->peaks.live), "stored_bytes_max", number(tally->peaks.stored_bytes),
                  "event_p50_us", event_part(tally, 0.5), "event_p99_us", event_part(tally, 0.99));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "source", result->options->behaviour,
                     "totals", totals, "cost", cost, "triggers", triggers_json(tally), "tasks",
                     tasks_json(tally), "law", law_json(result));
}

// ---- The page

static void trigger_table(const struct sim_tally *tally, FILE *file)
{
    (void)fputs("<table><tr><th>task<th>trigger<th class=n>fired<th class=n>per session"
                "<th>never fired: how far events came</tr>\n",
                file);
    for (uint32_t i = 0; i < tally->trigger_count; i++) {
        const struct sim_trigger_tally *t = &tally->triggers[i];
        char miss[TEXT_MAX] = "";
        const char *name;
        (void)starts_of(tally, t->task_id, &name);
        bool never = sim_trigger_miss(t, miss, sizeof(miss));
        (void)fputs("<tr><td>", file);
        base_html_text(file, name);
        (void)fputs("<td><code>", file);
        base_html_text(file, t->text);
        (void)fprintf(file, "</code><td class=n>%llu<td class=n>%.2f<td class=%s>",
                      (unsigned long long)t->matches, ratio(t->matches, t->sessions),
                      never ? "bad" : "good");
        base_html_text(file, miss);
        (void)fputs("</tr>\n", file);
    }
    (void)fputs("</table>\n", file);
}

static void phases_cell(const struct sim_task_tally *t, FILE *file)
{
    if (t->phased == 0) {
        (void)fputs("<td class=n>not known", file);
        return;
    }
    (void)fprintf(
        file, "<td class=n>%.2f, %.2f, %.2f", ratio(t->phases.prepare_us, t->phased) / 1000,
        ratio(t->phases.model_us, t->phased) / 1000, ratio(t->phases.finish_us, t->phased) / 1000);
}

static void task_table(const struct sim_tally *tally, FILE *file)
{
    (void)fputs("<table><tr><th>task<th class=n>runs started<th class=n>well<th class=n>failed"
                "<th class=n>run p50, ms<th class=n>p99<th class=n>prepare, model, finish, mean ms"
                "<th class=n>heap, KiB<th class=n>records"
                "<th class=n>bytes each<th class=n>left out by joins and windows</tr>\n",
                file);
    for (uint32_t i = 0; i < tally->task_count; i++) {
        const struct sim_task_tally *t = &tally->tasks[i];
        (void)fputs("<tr><td>", file);
        base_html_text(file, t->name);
        (void)fprintf(
            file,
            "<td class=n>%llu<td class=n>%llu<td class=n>%llu<td class=n>%.2f<td class=n>%.2f",
            (unsigned long long)t->starts, (unsigned long long)t->ran,
            (unsigned long long)t->failed, (double)base_hist_quantile(&t->run_us, 0.5) / 1000,
            (double)base_hist_quantile(&t->run_us, 0.99) / 1000);
        phases_cell(t, file);
        (void)fprintf(file,
                      "<td class=n>%.1f<td class=n>%llu<td class=n>%.0f<td class=n>%llu</tr>\n",
                      t->heap_peak_bytes / 1024.0, (unsigned long long)t->records,
                      ratio(t->record_bytes, t->records), (unsigned long long)t->left_out);
    }
    (void)fputs("</table>\n", file);
}

// What the certificates allow in all, beside the most that was seen on any device.
static void cost_table(const struct sim_tally *tally, FILE *file)
{
    uint64_t work = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tally->task_count; i++) {
        const struct dev_trigger_certificate *c = &tally->tasks[i].certificate;
        work += c->work;
        bytes += c->sources > 0 ? dev_declaration_trigger_bytes(c) : 0;
    }
    (void)fprintf(
        file,
        "<table><tr><th>cost of the triggers<th class=n>certified<th class=n>most seen</tr>\n"
        "<tr><td>steps for one event<td class=n>%llu<td class=n>%llu</tr>\n"
        "<tr><td>bytes of patterns and their state<td class=n>%llu<td class=n>%llu</tr>\n",
        (unsigned long long)work, (unsigned long long)tally->peaks.work, (unsigned long long)bytes,
        (unsigned long long)tally->peaks.trigger_bytes);
    if (tally->event_us.count > 0) {
        (void)fprintf(file,
                      "<tr><td>microseconds of this machine for one event, p50 and p99<td "
                      "class=n>%llu<td class=n>%llu</tr>\n",
                      (unsigned long long)base_hist_quantile(&tally->event_us, 0.5),
                      (unsigned long long)base_hist_quantile(&tally->event_us, 0.99));
    }
    (void)fprintf(file,
                  "<tr><td>bytes stored on a device<td class=n><td class=n>%llu</tr></table>\n",
                  (unsigned long long)tally->peaks.stored_bytes);
}

static void law_table(const struct sim_run_result *result, FILE *file)
{
    (void)fputs("<table><tr><th>class<th class=n>records offered<th class=n>durable<th "
                "class=n>queued<th class=n>declared lost<th class=n>gone with a kill<th>lost "
                "by</tr>\n",
                file);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        const struct sim_law_class *c = &result->law.classes[i];
        if (c->offered == 0) {
            continue;
        }
        (void)fprintf(file,
                      "<tr><td>%u<td class=n>%llu<td class=n>%llu<td class=n>%llu<td "
                      "class=n>%llu<td class=n>%llu<td>",
                      i, (unsigned long long)c->offered, (unsigned long long)c->durable,
                      (unsigned long long)c->queued, (unsigned long long)c->lost,
                      (unsigned long long)c->gone);
        for (unsigned k = 1; k < WIRE_TUNNEL_LOSS_END; k++) {
            if (c->lost_by[k] > 0) {
                (void)fprintf(file, "%s %llu ", loss_names[k], (unsigned long long)c->lost_by[k]);
            }
        }
        (void)fputs("</tr>\n", file);
    }
    (void)fprintf(
        file,
        "</table>\n<p class=%s>offered = durable + queued + declared lost + gone with a "
        "kill: %s on %llu of %llu (device, class) pairs, read from what every device has "
        "stored.</p>\n",
        result->law.broken == 0 ? "good" : "bad", result->law.broken == 0 ? "holds" : "BROKEN",
        (unsigned long long)(result->law.broken == 0 ? result->law.checked : result->law.broken),
        (unsigned long long)result->law.checked);
}

static double per_second(uint64_t now, uint64_t before, double span_s)
{
    return span_s > 0 ? (double)(now - before) / span_s : 0;
}

static void chart(const struct sim_run_result *result, FILE *file)
{
    const struct sim_timeline *timeline = result->timeline;
    const struct base_alloc_port *alloc = base_alloc_heap();
    size_t rows = timeline->count + 1;
    double *memory = alloc->alloc(alloc->ctx, sizeof(double) * rows * (SERIES_MAX + 1));
    if (memory == NULL) {
        return;
    }
    double *y[SERIES_MAX];
    for (uint32_t i = 0; i < SERIES_MAX; i++) {
        y[i] = memory + rows * (i + 1);
    }
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_row *row = &timeline->rows[i];
        const struct sim_row *last = i > 0 ? &timeline->rows[i - 1] : row;
        const struct sim_behaviour_sums *a = &row->behaviour;
        const struct sim_behaviour_sums *b = &last->behaviour;
        double span_s = row->t_s - last->t_s;
        memory[i] = row->t_s;
        y[0][i] = per_second(a->events, b->events, span_s);
        y[1][i] = per_second(a->triggered, b->triggered, span_s);
        y[2][i] = per_second(a->records, b->records, span_s);
        y[3][i] = per_second(a->durable, b->durable, span_s);
        y[4][i] = per_second(a->sessions, b->sessions, span_s);
    }
    struct sim_chart events = {.unit_y = "per second", .x = memory, .point_count = timeline->count};
    struct sim_chart runs = events;
    events.series[events.series_count++] = (struct sim_series){"events recorded", y[0], false};
    runs.series[runs.series_count++] = (struct sim_series){"sessions begun", y[4], true};
    runs.series[runs.series_count++] = (struct sim_series){"runs behaviour started", y[1], false};
    runs.series[runs.series_count++] = (struct sim_series){"records made", y[2], false};
    if (!result->options->local) {
        runs.series[runs.series_count++] = (struct sim_series){"records durable", y[3], false};
    }
    sim_chart_write(&events, file);
    sim_chart_write(&runs, file);
    alloc->release(alloc->ctx, memory);
}

void sim_behaviour_section(const struct sim_run_result *result, FILE *file)
{
    const struct sim_behaviour_sums *s = &result->counters.behaviour;
    if (result->tally == NULL) {
        return;
    }
    (void)fputs("<h2>Behaviour</h2>\n<p class=note>", file);
    (void)fprintf(file, "%llu sessions on %llu devices (%.1f hours of use), events from <code>",
                  (unsigned long long)s->sessions, (unsigned long long)s->devices,
                  (double)s->played_ms / 3.6e6);
    base_html_text(file, result->options->behaviour);
    (void)fprintf(
        file,
        "</code>: %llu recorded, %llu of them kept for a task; %llu matches to start "
        "something, %llu more held back by cooldown, cap or visit; %llu sessions ended in "
        "a kill. A session is played faster than it would last.</p>\n",
        (unsigned long long)s->events, (unsigned long long)s->kept, (unsigned long long)s->matches,
        (unsigned long long)s->suppressed, (unsigned long long)s->sessions_killed);
    chart(result, file);
    trigger_table(result->tally, file);
    task_table(result->tally, file);
    cost_table(result->tally, file);
    if (result->options->local) {
        return;
    }
    (void)fprintf(file,
                  "<h2>Up the tunnel</h2>\n<p>%llu records in %llu batches (%llu sent again): %.1f "
                  "KB of records, %.1f KB sent, %.0f bytes a session.</p>\n",
                  (unsigned long long)s->records, (unsigned long long)s->batches,
                  (unsigned long long)s->batches_resent, (double)s->record_bytes / 1000,
                  (double)s->sent_bytes / 1000, ratio(s->sent_bytes, s->sessions));
    law_table(result, file);
}

// ---- The terminal

static void triggers_print(const struct sim_tally *tally, FILE *file)
{
    for (uint32_t i = 0; i < tally->trigger_count; i++) {
        const struct sim_trigger_tally *t = &tally->triggers[i];
        char miss[TEXT_MAX];
        const char *name;
        (void)starts_of(tally, t->task_id, &name);
        if (sim_trigger_miss(t, miss, sizeof(miss))) {
            (void)fprintf(file,
                          "  WARNING     %s trigger %u, %s, never fired in %llu sessions: %s\n",
                          name, t->trigger, t->text, (unsigned long long)t->sessions, miss);
        } else {
            (void)fprintf(file, "  trigger     %s %u, %s: fired %llu times, %.2f a session\n", name,
                          t->trigger, t->text, (unsigned long long)t->matches,
                          ratio(t->matches, t->sessions));
        }
    }
}

void sim_behaviour_print(const struct sim_run_result *result, FILE *file)
{
    const struct sim_behaviour_sums *s = &result->counters.behaviour;
    if (result->tally == NULL) {
        return;
    }
    (void)fprintf(file,
                  "  behaviour   %llu sessions on %llu devices, %llu events, %llu runs started, "
                  "%llu records of %.0f bytes\n",
                  (unsigned long long)s->sessions, (unsigned long long)s->devices,
                  (unsigned long long)s->events, (unsigned long long)s->triggered,
                  (unsigned long long)s->records, ratio(s->record_bytes, s->records));
    if (s->records_against > 0) {
        (void)fprintf(file,
                      "  WARNING     %llu records are not as their schemas say, and the gateway "
                      "refuses them; the first: %s\n",
                      (unsigned long long)s->records_against, result->tally->against);
    }
    triggers_print(result->tally, file);
    if (!result->options->local) {
        uint64_t queued = 0;
        uint64_t lost = 0;
        uint64_t durable = 0;
        uint64_t gone = 0;
        for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
            queued += result->law.classes[i].queued;
            lost += result->law.classes[i].lost;
            durable += result->law.classes[i].durable;
            gone += result->law.classes[i].gone;
        }
        (void)fprintf(file,
                      "  tunnel      %llu durable, %llu queued, %llu declared lost, %llu gone with "
                      "a kill; %.1f KB sent\n",
                      (unsigned long long)durable, (unsigned long long)queued,
                      (unsigned long long)lost, (unsigned long long)gone,
                      (double)s->sent_bytes / 1000);
    }
}
