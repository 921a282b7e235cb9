// What every program here begins with.
#include <core.p4>
#include <v1model.p4>
