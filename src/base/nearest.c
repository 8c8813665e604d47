/* nearest.c - the distance of Damerau and Levenshtein. */
#include "base/nearest.h"

static size_t nearest_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many edits turn `a` into `b`. An edit inserts, drops or changes a character, or swaps
 * it with the next one. */
static size_t nearest_distance(struct bytes a, struct bytes b)
{
    size_t rows[3][NEAREST_ROOM + 1];
    size_t *above = rows[0], *row = rows[1], *next = rows[2];

    for (size_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (size_t i = 0; i < a.size; i++) {
        next[0] = i + 1;
        for (size_t j = 0; j < b.size; j++) {
            size_t distance = nearest_min(row[j + 1], next[j]) + 1;

            distance = nearest_min(distance, row[j] + (a.data[i] != b.data[j]));
            if (i > 0 && j > 0 && a.data[i] == b.data[j - 1] && a.data[i - 1] == b.data[j])
                distance = nearest_min(distance, above[j - 1] + 1);
            next[j + 1] = distance;
        }
        size_t *spare = above;
        above = row;
        row = next;
        next = spare;
    }
    return row[b.size];
}

struct nearest nearest_to(struct bytes wanted)
{
    return (struct nearest){.wanted_ = wanted, .distance_ = wanted.size / 2 + 1};
}

void nearest_try(struct nearest *nearest, const char *name)
{
    const struct bytes wanted = nearest->wanted_, candidate = bytes_of(name);

    if (wanted.size > NEAREST_ROOM || candidate.size > NEAREST_ROOM)
        return;
    size_t distance = nearest_distance(wanted, candidate);
    /* A name that contains the wanted one, as "listen_port" contains "port", counts as nearer than
     * its distance. Even nearer is one that begins with it. */
    const char *part =
        wanted.size >= 3 ? memmem(name, candidate.size, wanted.data, wanted.size) : NULL;
    if (part && (part == name || distance > 1))
        distance = part > name;
    if (distance < nearest->distance_) {
        nearest->distance_ = distance;
        nearest->name = name;
    }
}
