/* script/told - a report's sink that writes down what it is told, for the tests of the script host.
 *
 * Idea: an indented line a point, so that a case can look for what must be said.
 * Trap: what does not fit is cut; the texts are for looking, not for comparing whole. */
#ifndef TF_TESTS_SCRIPT_TOLD_H
#define TF_TESTS_SCRIPT_TOLD_H

#include "harness/lua/report.h"

typedef struct told {
    char text[16384];
    char details[16384];
    size_t made, pins;
} told;

report_sink told_sink(told *to);

#endif
