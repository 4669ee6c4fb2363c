// Shapes that are filled, line by line. One without dents has an edge to its left and one to its
// right; of others the edges that a line meets are sorted, and filled is between the first and the
// second, and so on. Outlines are drawn, too, as OpenCV does. Called by cv_draw.c, on the VM's
// thread.
#include "vm/cv/cv_canvas.h"

struct flank {
    size_t corner;
    size_t step; // to the next corner: 1 or count - 1
    int64_t x;
    int64_t dx;
    int64_t end; // line at which the edge ends
};

static int64_t row_of(struct cv_place place)
{
    return (place.y + CV_FIXED / 2) >> CV_FIXED_BITS;
}

// Goes to the edge of a flank that reaches below line y; false: there are no more.
static bool flank_next(struct flank *flank, const struct cv_place *corners, size_t count, int64_t y,
                       int64_t *left)
{
    size_t at = flank->corner;
    while ((*left)-- > 0) {
        size_t next = (at + flank->step) % count;
        int64_t end = row_of(corners[next]);
        if (end > y) {
            int64_t dx = corners[next].x - corners[at].x;
            flank->end = end;
            flank->dx = (dx * 2 + (end - y)) / (2 * (end - y));
            flank->x = corners[at].x;
            flank->corner = next;
            return true;
        }
        at = next;
    }
    return false;
}

// The outline; which corner is the highest.
static size_t outline(struct cv_canvas *canvas, const struct cv_place *corners, size_t count)
{
    size_t top = 0;
    for (size_t i = 0; i < count; i++) {
        top = corners[i].y < corners[top].y ? i : top;
        dev_cv_line_fixed(canvas, corners[i > 0 ? i - 1 : count - 1], corners[i]);
    }
    return top;
}

void dev_cv_fill_convex(struct cv_canvas *canvas, const struct cv_place *corners, size_t count)
{
    size_t top = outline(canvas, corners, count);
    int64_t bottom = row_of(corners[top]);
    int64_t y = bottom;
    for (size_t i = 0; i < count; i++) {
        bottom = row_of(corners[i]) > bottom ? row_of(corners[i]) : bottom;
    }
    if (count < 3 || bottom < 0 || y >= canvas->rows) {
        return;
    }
    bottom = bottom < canvas->rows - 1 ? bottom : canvas->rows - 1;
    struct flank flanks[] = {{.corner = top, .step = 1, .x = -CV_FIXED, .end = y},
                             {.corner = top, .step = count - 1, .x = -CV_FIXED, .end = y}};
    int64_t left = (int64_t)count;
    for (; y <= bottom; y++) {
        for (int i = 0; i < 2; i++) {
            if (y >= flanks[i].end) {
                (void)flank_next(&flanks[i], corners, count, y, &left);
            }
        }
        if (left < 0) {
            return;
        }
        int from = flanks[0].x > flanks[1].x;
        dev_cv_span(canvas, y, (flanks[from].x + CV_FIXED / 2) >> CV_FIXED_BITS,
                    (flanks[1 - from].x + CV_FIXED / 2) >> CV_FIXED_BITS);
        dev_cv_pay(&canvas->owed, 1);
        flanks[0].x += flanks[0].dx;
        flanks[1].x += flanks[1].dx;
    }
}

// --- shapes of any kind

// Where an edge begins and how it leans: OpenCV 4.6's way, from the upper corner's own place
// whether it is within the image or not, by a step that is cut towards zero. (Later versions begin
// half a pixel to the right, and where the outline was cut.)
static struct cv_edge edge_of(struct cv_place from, struct cv_place to)
{
    struct cv_place first = from.y < to.y ? from : to;
    return (struct cv_edge){.top = first.y,
                            .bottom = from.y < to.y ? to.y : from.y,
                            .x = first.x * CV_FIXED,
                            .dx = (to.x - from.x) * CV_FIXED / (to.y - from.y)};
}

void dev_cv_edges_add(struct cv_canvas *canvas, struct cv_edges *edges,
                      const struct cv_place *corners, size_t count)
{
    if (edges->count + count > CV_CORNERS_MAX) {
        dev_cv_bad("what is filled has at most 1,048,576 corners");
    }
    if (edges->count + count > edges->room) {
        size_t room = 2 * (edges->count + count);
        edges->at = m_renew(struct cv_edge, edges->at, edges->room, room);
        edges->room = room;
    }
    for (size_t i = 0; i < count; i++) {
        struct cv_place from = corners[i > 0 ? i - 1 : count - 1];
        dev_cv_line_thin(canvas, from, corners[i]);
        dev_cv_pay(&canvas->owed, 8);
        if (from.y != corners[i].y) {
            edges->at[edges->count++] = edge_of(from, corners[i]);
        }
    }
}

static bool is_before(const struct cv_edge *one, const struct cv_edge *other)
{
    return one->top != other->top ? one->top < other->top : one->x < other->x;
}

static void sift(struct cv_edge *edges, size_t at, size_t count)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(&edges[child], &edges[child + 1])) {
            child++;
        }
        if (!is_before(&edges[at], &edges[child])) {
            return;
        }
        struct cv_edge edge = edges[at];
        edges[at] = edges[child];
        edges[child] = edge;
        at = child;
    }
}

static void edges_sort(struct cv_canvas *canvas, struct cv_edges *edges)
{
    for (size_t i = edges->count / 2; i-- > 0;) {
        sift(edges->at, i, edges->count);
        dev_cv_pay(&canvas->owed, 32);
    }
    for (size_t end = edges->count; end-- > 1;) {
        struct cv_edge edge = edges->at[0];
        edges->at[0] = edges->at[end];
        edges->at[end] = edge;
        sift(edges->at, 0, end);
        dev_cv_pay(&canvas->owed, 32);
    }
}

// Sorts the edges that line y meets by x; how many they are after those that end there.
static size_t active_sort(struct cv_edge **active, size_t count, int64_t y, size_t *owed)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct cv_edge *edge = active[i];
        if (edge->bottom <= y) {
            continue;
        }
        size_t at = kept++;
        while (at > 0 && active[at - 1]->x > edge->x) {
            active[at] = active[at - 1];
            at--;
            dev_cv_pay(owed, 1);
        }
        active[at] = edge;
    }
    dev_cv_pay(owed, count);
    return kept;
}

void dev_cv_fill_edges(struct cv_canvas *canvas, struct cv_edges *edges)
{
    if (edges->count < 2) {
        return;
    }
    edges_sort(canvas, edges);
    struct cv_edge **active = m_new(struct cv_edge *, edges->count);
    size_t count = 0;
    size_t next = 0;
    int64_t y = edges->at[0].top;
    for (; y < canvas->rows && (count > 0 || next < edges->count); y++) {
        for (; next < edges->count && edges->at[next].top == y; next++) {
            active[count++] = &edges->at[next];
        }
        count = active_sort(active, count, y, &canvas->owed);
        for (size_t i = 0; i + 1 < count; i += 2) {
            dev_cv_span(canvas, y, (active[i]->x + CV_FIXED - 1) >> CV_FIXED_BITS,
                        active[i + 1]->x >> CV_FIXED_BITS);
        }
        for (size_t i = 0; i < count; i++) {
            active[i]->x += active[i]->dx;
        }
        dev_cv_pay(&canvas->owed, 1 + count);
    }
    dev_cv_hold(edges);
}
