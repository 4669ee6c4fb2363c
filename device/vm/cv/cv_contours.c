// Borders of what is not 0 in an image, after S. Suzuki and K. Abe, "Topological structural
// analysis of digitized binary images by border following" (1985). Every border has a number, from
// 2 on; its pixels hold it, below 0 where the pixel to their right was looked at and is empty.
// Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_points.h"

#define FIRST 2 // number of the first border

enum { EXTERNAL, LIST, CCOMP, TREE };
enum { CHAIN_NONE = 1, CHAIN_SIMPLE };
enum { NEXT, BEFORE, CHILD, PARENT, LINKS };

struct border {
    struct np_array *points;
    int32_t links[LINKS]; // indices of borders; -1: none
    bool is_hole;
};

struct scan {
    int32_t *pixels; // with one around the image: 0 is empty, 1 is not on a border yet
    int64_t step;    // pixels of a row
    int64_t rows;    // of the image
    int64_t columns;
    mp_int_t mode;
    mp_int_t method;
    int64_t offset[2];
    struct border *borders;
    size_t count;
    size_t room;
    struct cv_point *points; // of the border that is followed
    size_t points_room;
    size_t owed;
};

// From the right on against the clock, as it is seen: x, y of the eight neighbours.
static const int8_t around[8][2] = {{1, 0},  {1, -1}, {0, -1}, {-1, -1},
                                    {-1, 0}, {-1, 1}, {0, 1},  {1, 1}};

static int64_t neighbour(const struct scan *scan, int64_t at, unsigned direction)
{
    return at + around[direction][0] + around[direction][1] * scan->step;
}

static void point_add(struct scan *scan, size_t *count, int64_t x, int64_t y)
{
    if (*count == scan->points_room) {
        size_t room = scan->points_room * 2;
        scan->points = m_renew(struct cv_point, scan->points, scan->points_room, room);
        scan->points_room = room;
    }
    scan->points[*count].x = (double)(x - 1 + scan->offset[0]);
    scan->points[*count].y = (double)(y - 1 + scan->offset[1]);
    (*count)++;
}

// Follows a border from its first pixel and marks it; the number of points that are kept.
static size_t follow(struct scan *scan, int64_t x, int64_t y, bool is_hole, int32_t number)
{
    int64_t start = y * scan->step + x;
    unsigned direction = is_hole ? 0 : 4;
    const unsigned empty = direction;
    size_t count = 0;
    do {
        direction = (direction - 1) & 7;
    } while (direction != empty && scan->pixels[neighbour(scan, start, direction)] == 0);
    if (direction == empty) { // alone
        scan->pixels[start] = -number;
        point_add(scan, &count, x, y);
        return count;
    }
    const int64_t last = neighbour(scan, start, direction);
    int64_t at = start;
    unsigned before = direction ^ 4;
    for (;;) {
        const unsigned begin = direction;
        do {
            direction = (direction + 1) & 7;
        } while (scan->pixels[neighbour(scan, at, direction)] == 0);
        // Was the neighbour to the right, 0, among those between?
        if (((0 - begin - 1) & 7) < ((direction - begin - 1) & 7)) {
            scan->pixels[at] = -number;
        } else if (scan->pixels[at] == 1) {
            scan->pixels[at] = number;
        }
        if (direction != before || scan->method == CHAIN_NONE) {
            point_add(scan, &count, x, y);
            before = direction;
        }
        dev_cv_pay(&scan->owed, 8);
        int64_t next = neighbour(scan, at, direction);
        if (next == start && at == last) {
            return count;
        }
        x += around[direction][0];
        y += around[direction][1];
        at = next;
        direction = (direction + 4) & 7;
    }
}

// Which border lies around a new one; -1: none. `seen` is the border that the row met last.
static int32_t parent_of(const struct scan *scan, int32_t seen, bool is_hole)
{
    int32_t index = (seen < 0 ? -seen : seen) - FIRST;
    if (scan->mode <= LIST || (scan->mode == CCOMP && !is_hole) || index < 0) {
        return -1;
    }
    const struct border *one = &scan->borders[index];
    return one->is_hole == is_hole ? one->links[PARENT] : index;
}

static void border_add(struct scan *scan, int64_t x, int64_t y, bool is_hole, int32_t seen)
{
    if (scan->count == scan->room) {
        scan->borders = m_renew(struct border, scan->borders, scan->room, scan->room * 2);
        scan->room *= 2;
    }
    int32_t parent = parent_of(scan, seen, is_hole);
    size_t points = follow(scan, x, y, is_hole, (int32_t)scan->count + FIRST);
    struct border *made = &scan->borders[scan->count];
    *made = (struct border){.links = {-1, -1, -1, parent}, .is_hole = is_hole};
    made->points = dev_cv_points_give(scan->points, points, NP_I32);
    scan->count++;
}

static void row_scan(struct scan *scan, int64_t y)
{
    const int32_t *row = scan->pixels + y * scan->step;
    int32_t seen = 0;
    int32_t before = 0;
    for (int64_t x = 1; x <= scan->columns + 1; x++) {
        int32_t pixel = row[x];
        bool is_outer = before == 0 && pixel == 1;
        bool is_hole = before >= 1 && pixel == 0;
        if (before != pixel && (is_outer || is_hole)) {
            seen = is_hole && before != 1 ? before : seen;
            if (scan->mode != EXTERNAL || (!is_hole && seen <= 0)) {
                border_add(scan, x - is_hole, y, is_hole, seen);
                seen = is_hole ? row[x - 1] : seen;
            }
            pixel = row[x];
        }
        seen = pixel != 0 && pixel != 1 ? pixel : seen;
        before = pixel;
    }
    dev_cv_pay(&scan->owed, (size_t)scan->step);
}

// Links borders as OpenCV does: what was found last comes first among those of one parent.
static void link_up(struct scan *scan)
{
    int32_t top = -1;
    for (size_t i = 0; i < scan->count; i++) {
        struct border *one = &scan->borders[i];
        int32_t *first = &top;
        if (one->links[PARENT] >= 0) {
            first = &scan->borders[one->links[PARENT]].links[CHILD];
        }
        one->links[NEXT] = *first;
        if (*first >= 0) {
            scan->borders[*first].links[BEFORE] = (int32_t)i;
        }
        *first = (int32_t)i;
        dev_cv_pay(&scan->owed, LINKS);
    }
}

// The borders from the top down, children before what is next; order[i] is which border is i-th.
static void in_order(struct scan *scan, int32_t *order, int32_t *place)
{
    int32_t at = -1;
    for (size_t i = scan->count; i-- > 0 && at < 0;) {
        at = scan->borders[i].links[PARENT] < 0 ? (int32_t)i : -1;
    }
    for (size_t made = 0; made < scan->count; made++) {
        order[made] = at;
        place[at] = (int32_t)made;
        const int32_t *links = scan->borders[at].links;
        int32_t next = links[CHILD];
        while (next < 0 && at >= 0) {
            next = scan->borders[at].links[NEXT];
            at = scan->borders[at].links[PARENT];
            dev_cv_pay(&scan->owed, 1);
        }
        at = next;
    }
}

static mp_obj_t given(struct scan *scan)
{
    if (scan->count == 0) {
        mp_obj_t none[] = {mp_const_empty_tuple, mp_const_none};
        return mp_obj_new_tuple(2, none);
    }
    link_up(scan);
    int32_t *order = m_new(int32_t, scan->count);
    int32_t *place = m_new(int32_t, scan->count);
    in_order(scan, order, place);
    mp_obj_tuple_t *contours = MP_OBJ_TO_PTR(mp_obj_new_tuple(scan->count, NULL));
    int64_t dims[] = {1, (int64_t)scan->count, LINKS};
    struct np_array *hierarchy = dev_np_new(NP_I32, 3, dims);
    int32_t *to = (void *)hierarchy->data;
    for (size_t i = 0; i < scan->count; i++, to += LINKS) {
        const struct border *one = &scan->borders[order[i]];
        contours->items[i] = MP_OBJ_FROM_PTR(one->points);
        for (int k = 0; k < LINKS; k++) {
            to[k] = one->links[k] < 0 ? -1 : place[one->links[k]];
        }
        dev_cv_pay(&scan->owed, LINKS);
    }
    mp_obj_t both[] = {MP_OBJ_FROM_PTR(contours), MP_OBJ_FROM_PTR(hierarchy)};
    return mp_obj_new_tuple(2, both);
}

static void image_read(struct scan *scan, const struct cv_image *image)
{
    scan->rows = image->rows;
    scan->columns = image->columns;
    scan->step = image->columns + 2;
    if (image->rows > INT32_MAX || image->columns > INT32_MAX) {
        dev_cv_bad("an image has at most 2,147,483,647 rows and columns");
    }
    size_t size = (size_t)scan->step * ((size_t)image->rows + 2);
    scan->pixels = m_new0(int32_t, size);
    for (int64_t y = 0; y < image->rows; y++) {
        const uint8_t *from = dev_cv_row(image, y);
        int32_t *to = scan->pixels + (y + 1) * scan->step + 1;
        for (int64_t x = 0; x < image->columns; x++) {
            to[x] = from[x] != 0;
        }
        dev_cv_pay(&scan->owed, (size_t)image->columns);
    }
}

// findContours(image, mode, method[, contours[, hierarchy[, offset]]])
static mp_obj_t find_contours(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMAGE, MODE, METHOD, CONTOURS, HIERARCHY, OFFSET, ROOM = 16 };
    static const mp_arg_t table[] = {CV_NEEDS(image),  CV_NEEDS_INT(mode), CV_NEEDS_INT(method),
                                     CV_MAY(contours), CV_MAY(hierarchy),  CV_MAY(offset)};
    CV_PARSE(table);
    struct cv_image image = dev_cv_take(values[IMAGE].u_obj, CV_U8);
    struct scan scan = {.mode = values[MODE].u_int, .method = values[METHOD].u_int};
    if (image.channels != 1) {
        dev_cv_bad("contours are found in an image of one channel");
    }
    if (scan.mode < EXTERNAL || scan.mode > TREE) {
        dev_cv_bad("a mode is RETR_EXTERNAL, RETR_LIST, RETR_CCOMP or RETR_TREE");
    }
    if (scan.method != CHAIN_NONE && scan.method != CHAIN_SIMPLE) {
        dev_cv_bad("a method is CHAIN_APPROX_NONE or CHAIN_APPROX_SIMPLE");
    }
    if (values[OFFSET].u_obj != mp_const_none) {
        dev_cv_pair(values[OFFSET].u_obj, scan.offset);
    }
    image_read(&scan, &image);
    dev_cv_hold(&image);
    scan.room = ROOM;
    scan.borders = m_new(struct border, ROOM);
    scan.points_room = ROOM;
    scan.points = m_new(struct cv_point, ROOM);
    for (int64_t y = 1; y <= scan.rows; y++) {
        row_scan(&scan, y);
    }
    mp_obj_t made = given(&scan);
    dev_cv_hold(&scan);
    return made;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_findContours_obj, 3, find_contours);
