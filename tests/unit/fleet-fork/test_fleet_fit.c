// A fit: curves of a known shape give that shape again, and what is no curve is refused.
#include "test_kit.h"

#include "base/prng.h"
#include "fit/fit.h"

#include <math.h>
#include <unistd.h>

static struct sim_fit fit_new(uint32_t points)
{
    return (struct sim_fit){
        .from = "here", .points = points, .exchanges = 4, .within = 5, .checked_off = -1};
}

// 7,000 by second 420 and 22,000 by second 1140, one at a time.
static void two_lines_give_two_points(void **state)
{
    (void)state;
    struct sim_fit fit = fit_new(12);
    for (uint32_t i = 1; i <= 22000; i++) {
        double at_s = i <= 7000 ? i * 420.0 / 7000 : 420 + (i - 7000) * 720.0 / 15000;
        assert_true(sim_steps_add(&fit.came, at_s, i));
    }
    assert_int_equal(sim_fit_check(&fit, NULL), BASE_OK);
    sim_fit_arrivals(&fit);
    assert_true(fit.knot_count <= 4);
    assert_true(fit.arrivals_off <= 0.02);
    bool near = false;
    for (uint32_t i = 0; i < fit.knot_count; i++) {
        near = near || (fabs(fit.knots_s[i] - 420) < 5 && fabs(fit.knots[i] - 7000) < 100);
    }
    assert_true(near);
    assert_true(fabs(fit.knots_s[fit.knot_count - 1] - 1140) < 0.001);
    assert_true(fabs(fit.knots[fit.knot_count - 1] - 22000) < 0.001);
    sim_fit_done(&fit);
}

// What is left over says how far the line is off; fewer points are never nearer.
static void fewer_points_are_farther_off(void **state)
{
    (void)state;
    double before = 100;
    for (uint32_t points = 1; points <= SIM_ARRIVAL_POINTS_MAX; points *= 2) {
        struct sim_fit fit = fit_new(points);
        for (uint32_t i = 1; i <= 5000; i++) {
            assert_true(sim_steps_add(&fit.came, 1000 * sqrt(i / 5000.0), i));
        }
        sim_fit_arrivals(&fit);
        assert_true(fit.knot_count <= points);
        assert_true(fit.arrivals_off <= before);
        before = fit.arrivals_off;
        sim_fit_done(&fit);
    }
    assert_true(before < 1);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#define DEVICES 4000

// Each of four answers takes 40 ms, and one in two up to two seconds more.
static void a_delay_is_found_again(void **state)
{
    (void)state;
    struct sim_fit fit = fit_new(12);
    static double ran[DEVICES];
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    for (uint32_t i = 0; i < DEVICES; i++) {
        double at_s = (i + 1) / 400.0;
        assert_true(sim_steps_add(&fit.came, at_s, i + 1));
        ran[i] = at_s;
        for (uint32_t k = 0; k < fit.exchanges; k++) {
            bool late = base_prng_unit(&prng) < 0.5;
            ran[i] += 0.04 + (late ? 2 * base_prng_unit(&prng) : 0);
        }
    }
    qsort(ran, DEVICES, sizeof(ran[0]), compare_doubles);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(sim_steps_add(&fit.ran, ran[i], i + 1));
    }
    sim_fit_delay(&fit);
    print_message("delay %u ms @ %u ppm, off %g, %g without\n", fit.delay_ms, fit.delay_ppm,
                  fit.delay_off, fit.plain_off);
    assert_true(fit.delayed);
    assert_true(fit.plain_off > 10);
    assert_true(fit.delay_off < 1);
    // The mean of it is what was put in, whichever way it is split.
    double mean_ms = fit.delay_ms / 2.0 * fit.delay_ppm / 1e6;
    assert_true(fabs(mean_ms - 500) < 50);
    for (uint32_t i = 0; i < SIM_FIT_SHARES; i++) {
        double off_s = fabs(fit.given_s[i] - fit.fitted_s[i]);
        print_message("share %g: given %g s, fitted %g s\n", sim_fit_shares[i], fit.given_s[i],
                      fit.fitted_s[i]);
        assert_true(off_s < (sim_fit_shares[i] > 0.95 ? 0.6 : 0.2)); // few devices make the tail
    }
    sim_fit_done(&fit);
}

static void no_delay_is_none(void **state)
{
    (void)state;
    struct sim_fit fit = fit_new(12);
    for (uint32_t i = 1; i <= 2000; i++) {
        assert_true(sim_steps_add(&fit.came, i / 20.0, i));
        assert_true(sim_steps_add(&fit.ran, i / 20.0 + 0.16, i));
    }
    sim_fit_delay(&fit);
    assert_false(fit.delayed);
    assert_true(fit.plain_off < 0.1);
    sim_fit_done(&fit);
}

static enum base_status read_text(const char *text, const char *manifest, struct sim_fit *fit)
{
    char path[] = "/tmp/walle-fit-XXXXXX";
    struct base_error error = {.status = BASE_OK};
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(file);
    *fit = fit_new(12);
    fit->from = path;
    fit->manifest = manifest;
    enum base_status status = sim_fit_file(fit, &error);
    status = status == BASE_OK ? sim_fit_check(fit, &error) : status;
    assert_true(status == BASE_OK || error.text[0] != '\0');
    (void)unlink(path);
    return status;
}

static void files_are_read(void **state)
{
    (void)state;
    struct sim_fit fit;
    static const char two[] = "manifest,stage,t_s,devices\nab,offered,1,2\nab,downloaded,1,2\n"
                              "cd,offered,1,5\ncd,offered,4.5,9\ncd,ran,5,4\n";
    assert_int_equal(read_text(two, NULL, &fit), BASE_OK);
    assert_int_equal(fit.came.count, 2);
    assert_true(fabs(fit.came.x[1] - 4.5) < 1e-9 && fabs(fit.came.y[1] - 9) < 1e-9);
    assert_int_equal(fit.ran.count, 1);
    sim_fit_done(&fit);
    assert_int_equal(read_text(two, "ef", &fit), BASE_ERR_NOT_FOUND);
    sim_fit_done(&fit);
    // Points of a line: halfway between them half have come.
    assert_int_equal(read_text("# by hand\n0,1\n60,101\r\n", NULL, &fit), BASE_OK);
    assert_true(fabs(sim_steps_at(&fit.came, 30.1) - 51) < 1.5);
    sim_fit_done(&fit);
}

static void odd_files_are_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "1,2\n",                                        // one moment
        "1,5\n2,4\n",                                   // it falls
        "5,1\n2,4\n",                                   // time goes back
        "1,1\n2,1\n",                                   // one device
        "1,2\n2,x\n",                                   //
        "1,2\n2,3,4\n",                                 //
        "1,2\n-2,3\n",                                  //
        "1,2\n2,nan\n",                                 //
        "1,2\n2,inf\n",                                 //
        "1,2\nnan,5\n",                                 //
        "1,2\n1e99,5\n",                                //
        "ab,seen,1,2\nab,offered,2,4\n",                // no such stage
        ",offered,1,2\n,offered,2,4\n",                 //
        "ab,offered,1,2\nab,offered,2,4\nab,ran,3,5\n", // more ran it than were offered it
    };
    for (size_t i = 0; i < TEST_COUNT(odd); i++) {
        struct sim_fit fit;
        if (read_text(odd[i], NULL, &fit) != BASE_ERR_INVALID) {
            fail_msg("file %zu is taken: %s", i, odd[i]);
        }
        sim_fit_done(&fit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_lines_give_two_points),
        cmocka_unit_test(fewer_points_are_farther_off),
        cmocka_unit_test(a_delay_is_found_again),
        cmocka_unit_test(no_delay_is_none),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(odd_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
