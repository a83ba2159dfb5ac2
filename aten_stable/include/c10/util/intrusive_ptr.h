#error "aten_stable: <c10/util/intrusive_ptr.h> is not covered: write std::shared_ptr"
