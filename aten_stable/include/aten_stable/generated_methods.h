// Written by aten_stable/generate.py from torch's table of operators. One line a function.
// clang-format off
G bool retains_grad() const { return ATEN(bool, "retains_grad", "", "retains_grad(Tensor self) -> bool", *this); }
G Tensor abs() const { return ATEN(Tensor, "abs", "", "abs(Tensor self) -> Tensor", *this); }
G Tensor& abs_() const { ATEN(Tensor, "abs_", "", "abs_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor absolute() const { return ATEN(Tensor, "absolute", "", "absolute(Tensor self) -> Tensor", *this); }
G Tensor& absolute_() const { ATEN(Tensor, "absolute_", "", "absolute_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor angle() const { return ATEN(Tensor, "angle", "", "angle(Tensor self) -> Tensor", *this); }
G Tensor sgn() const { return ATEN(Tensor, "sgn", "", "sgn(Tensor self) -> Tensor", *this); }
G Tensor& sgn_() const { ATEN(Tensor, "sgn_", "", "sgn_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor chalf(std::optional<MemoryFormat> memory_format=std::nullopt) const { return ATEN(Tensor, "chalf", "", "chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", *this, memory_format); }
G Tensor conj() const { return ATEN(Tensor, "conj", "", "conj(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor conj_physical() const { return ATEN(Tensor, "conj_physical", "", "conj_physical(Tensor self) -> Tensor", *this); }
G Tensor& conj_physical_() const { ATEN(Tensor, "conj_physical_", "", "conj_physical_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor resolve_conj() const { return ATEN(Tensor, "resolve_conj", "", "resolve_conj(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor resolve_neg() const { return ATEN(Tensor, "resolve_neg", "", "resolve_neg(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor acos() const { return ATEN(Tensor, "acos", "", "acos(Tensor self) -> Tensor", *this); }
G Tensor& acos_() const { ATEN(Tensor, "acos_", "", "acos_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor arccos() const { return ATEN(Tensor, "arccos", "", "arccos(Tensor self) -> Tensor", *this); }
G Tensor& arccos_() const { ATEN(Tensor, "arccos_", "", "arccos_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor addmv(const Tensor& mat, const Tensor& vec, const Scalar& beta=1, const Scalar& alpha=1) const { return ATEN(Tensor, "addmv", "", "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", *this, mat, vec, beta, alpha); }
G Tensor& addmv_(const Tensor& mat, const Tensor& vec, const Scalar& beta=1, const Scalar& alpha=1) const { ATEN(Tensor, "addmv_", "", "addmv_(Tensor(a!) self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)", *this, mat, vec, beta, alpha); return const_cast<Tensor&>(*this); }
G Tensor addr(const Tensor& vec1, const Tensor& vec2, const Scalar& beta=1, const Scalar& alpha=1) const { return ATEN(Tensor, "addr", "", "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", *this, vec1, vec2, beta, alpha); }
G Tensor& addr_(const Tensor& vec1, const Tensor& vec2, const Scalar& beta=1, const Scalar& alpha=1) const { ATEN(Tensor, "addr_", "", "addr_(Tensor(a!) self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)", *this, vec1, vec2, beta, alpha); return const_cast<Tensor&>(*this); }
G Tensor all(int64_t dim, bool keepdim=false) const { return ATEN(Tensor, "all", "dim", "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor all(OptionalIntArrayRef dim, bool keepdim=false) const { return ATEN(Tensor, "all", "dims", "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G bool allclose(const Tensor& other, double rtol=1e-05, double atol=1e-08, bool equal_nan=false) const { return ATEN(bool, "allclose", "", "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool", *this, other, rtol, atol, equal_nan); }
G Tensor any(int64_t dim, bool keepdim=false) const { return ATEN(Tensor, "any", "dim", "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor any(OptionalIntArrayRef dim, bool keepdim=false) const { return ATEN(Tensor, "any", "dims", "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor argmax(std::optional<int64_t> dim=std::nullopt, bool keepdim=false) const { return ATEN(Tensor, "argmax", "", "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor argmin(std::optional<int64_t> dim=std::nullopt, bool keepdim=false) const { return ATEN(Tensor, "argmin", "", "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor acosh() const { return ATEN(Tensor, "acosh", "", "acosh(Tensor self) -> Tensor", *this); }
G Tensor& acosh_() const { ATEN(Tensor, "acosh_", "", "acosh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor arccosh() const { return ATEN(Tensor, "arccosh", "", "arccosh(Tensor self) -> Tensor", *this); }
G Tensor& arccosh_() const { ATEN(Tensor, "arccosh_", "", "arccosh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor asinh() const { return ATEN(Tensor, "asinh", "", "asinh(Tensor self) -> Tensor", *this); }
G Tensor& asinh_() const { ATEN(Tensor, "asinh_", "", "asinh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor arcsinh() const { return ATEN(Tensor, "arcsinh", "", "arcsinh(Tensor self) -> Tensor", *this); }
G Tensor& arcsinh_() const { ATEN(Tensor, "arcsinh_", "", "arcsinh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor atanh() const { return ATEN(Tensor, "atanh", "", "atanh(Tensor self) -> Tensor", *this); }
G Tensor& atanh_() const { ATEN(Tensor, "atanh_", "", "atanh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor arctanh() const { return ATEN(Tensor, "arctanh", "", "arctanh(Tensor self) -> Tensor", *this); }
G Tensor& arctanh_() const { ATEN(Tensor, "arctanh_", "", "arctanh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor as_strided(IntArrayRef size, IntArrayRef stride, std::optional<int64_t> storage_offset=std::nullopt) const { return ATEN(Tensor, "as_strided", "", "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)", *this, size, stride, storage_offset); }
G Tensor& as_strided_(IntArrayRef size, IntArrayRef stride, std::optional<int64_t> storage_offset=std::nullopt) const { ATEN(Tensor, "as_strided_", "", "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)", *this, size, stride, storage_offset); return const_cast<Tensor&>(*this); }
G Tensor asin() const { return ATEN(Tensor, "asin", "", "asin(Tensor self) -> Tensor", *this); }
G Tensor& asin_() const { ATEN(Tensor, "asin_", "", "asin_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor arcsin() const { return ATEN(Tensor, "arcsin", "", "arcsin(Tensor self) -> Tensor", *this); }
G Tensor& arcsin_() const { ATEN(Tensor, "arcsin_", "", "arcsin_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor atan() const { return ATEN(Tensor, "atan", "", "atan(Tensor self) -> Tensor", *this); }
G Tensor& atan_() const { ATEN(Tensor, "atan_", "", "atan_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor arctan() const { return ATEN(Tensor, "arctan", "", "arctan(Tensor self) -> Tensor", *this); }
G Tensor& arctan_() const { ATEN(Tensor, "arctan_", "", "arctan_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor baddbmm(const Tensor& batch1, const Tensor& batch2, const Scalar& beta=1, const Scalar& alpha=1) const { return ATEN(Tensor, "baddbmm", "", "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", *this, batch1, batch2, beta, alpha); }
G Tensor& baddbmm_(const Tensor& batch1, const Tensor& batch2, const Scalar& beta=1, const Scalar& alpha=1) const { ATEN(Tensor, "baddbmm_", "", "baddbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)", *this, batch1, batch2, beta, alpha); return const_cast<Tensor&>(*this); }
G Tensor bernoulli(std::optional<Generator> generator=std::nullopt) const { return ATEN(Tensor, "bernoulli", "", "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", *this, generator); }
G Tensor& bernoulli_(const Tensor& p, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "bernoulli_", "Tensor", "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)", *this, p, generator); return const_cast<Tensor&>(*this); }
G Tensor& bernoulli_(double p=0.5, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "bernoulli_", "float", "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)", *this, p, generator); return const_cast<Tensor&>(*this); }
G Tensor bernoulli(double p, std::optional<Generator> generator=std::nullopt) const { return ATEN(Tensor, "bernoulli", "p", "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", *this, p, generator); }
G Tensor bincount(const std::optional<Tensor>& weights={}, int64_t minlength=0) const { return ATEN(Tensor, "bincount", "", "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", *this, weights, minlength); }
G Tensor bitwise_not() const { return ATEN(Tensor, "bitwise_not", "", "bitwise_not(Tensor self) -> Tensor", *this); }
G Tensor& bitwise_not_() const { ATEN(Tensor, "bitwise_not_", "", "bitwise_not_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor copysign(const Tensor& other) const { return ATEN(Tensor, "copysign", "Tensor", "copysign.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& copysign_(const Tensor& other) const { ATEN(Tensor, "copysign_", "Tensor", "copysign_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor copysign(const Scalar& other) const { return ATEN(Tensor, "copysign", "Scalar", "copysign.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& copysign_(const Scalar& other) const { ATEN(Tensor, "copysign_", "Scalar", "copysign_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor logical_not() const { return ATEN(Tensor, "logical_not", "", "logical_not(Tensor self) -> Tensor", *this); }
G Tensor& logical_not_() const { ATEN(Tensor, "logical_not_", "", "logical_not_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor logical_xor(const Tensor& other) const { return ATEN(Tensor, "logical_xor", "", "logical_xor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& logical_xor_(const Tensor& other) const { ATEN(Tensor, "logical_xor_", "", "logical_xor_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor logical_and(const Tensor& other) const { return ATEN(Tensor, "logical_and", "", "logical_and(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& logical_and_(const Tensor& other) const { ATEN(Tensor, "logical_and_", "", "logical_and_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor logical_or(const Tensor& other) const { return ATEN(Tensor, "logical_or", "", "logical_or(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& logical_or_(const Tensor& other) const { ATEN(Tensor, "logical_or_", "", "logical_or_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bmm(const Tensor& mat2) const { return ATEN(Tensor, "bmm", "", "bmm(Tensor self, Tensor mat2) -> Tensor", *this, mat2); }
G Tensor broadcast_to(IntArrayRef size) const { return ATEN(Tensor, "broadcast_to", "", "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", *this, size); }
G Tensor ceil() const { return ATEN(Tensor, "ceil", "", "ceil(Tensor self) -> Tensor", *this); }
G Tensor& ceil_() const { ATEN(Tensor, "ceil_", "", "ceil_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G std::vector<Tensor> chunk(int64_t chunks, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "chunk", "", "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", *this, chunks, dim); }
G std::vector<Tensor> tensor_split(int64_t sections, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "tensor_split", "sections", "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]", *this, sections, dim); }
G std::vector<Tensor> tensor_split(IntArrayRef indices, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "tensor_split", "indices", "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]", *this, indices, dim); }
G std::vector<Tensor> tensor_split(const Tensor& tensor_indices_or_sections, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "tensor_split", "tensor_indices_or_sections", "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]", *this, tensor_indices_or_sections, dim); }
G Tensor clamp(const std::optional<Scalar>& min, const std::optional<Scalar>& max=std::nullopt) const { return ATEN(Tensor, "clamp", "", "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", *this, min, max); }
G Tensor clamp(const std::optional<Tensor>& min={}, const std::optional<Tensor>& max={}) const { return ATEN(Tensor, "clamp", "Tensor", "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", *this, min, max); }
G Tensor& clamp_(const std::optional<Scalar>& min, const std::optional<Scalar>& max=std::nullopt) const { ATEN(Tensor, "clamp_", "", "clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)", *this, min, max); return const_cast<Tensor&>(*this); }
G Tensor& clamp_(const std::optional<Tensor>& min={}, const std::optional<Tensor>& max={}) const { ATEN(Tensor, "clamp_", "Tensor", "clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)", *this, min, max); return const_cast<Tensor&>(*this); }
G Tensor clamp_max(const Scalar& max) const { return ATEN(Tensor, "clamp_max", "", "clamp_max(Tensor self, Scalar max) -> Tensor", *this, max); }
G Tensor clamp_max(const Tensor& max) const { return ATEN(Tensor, "clamp_max", "Tensor", "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", *this, max); }
G Tensor& clamp_max_(const Scalar& max) const { ATEN(Tensor, "clamp_max_", "", "clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!)", *this, max); return const_cast<Tensor&>(*this); }
G Tensor& clamp_max_(const Tensor& max) const { ATEN(Tensor, "clamp_max_", "Tensor", "clamp_max_.Tensor(Tensor(a!) self, Tensor max) -> Tensor(a!)", *this, max); return const_cast<Tensor&>(*this); }
G Tensor clamp_min(const Scalar& min) const { return ATEN(Tensor, "clamp_min", "", "clamp_min(Tensor self, Scalar min) -> Tensor", *this, min); }
G Tensor clamp_min(const Tensor& min) const { return ATEN(Tensor, "clamp_min", "Tensor", "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", *this, min); }
G Tensor& clamp_min_(const Scalar& min) const { ATEN(Tensor, "clamp_min_", "", "clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)", *this, min); return const_cast<Tensor&>(*this); }
G Tensor& clamp_min_(const Tensor& min) const { ATEN(Tensor, "clamp_min_", "Tensor", "clamp_min_.Tensor(Tensor(a!) self, Tensor min) -> Tensor(a!)", *this, min); return const_cast<Tensor&>(*this); }
G Tensor clip(const std::optional<Scalar>& min, const std::optional<Scalar>& max=std::nullopt) const { return ATEN(Tensor, "clip", "", "clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", *this, min, max); }
G Tensor clip(const std::optional<Tensor>& min={}, const std::optional<Tensor>& max={}) const { return ATEN(Tensor, "clip", "Tensor", "clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", *this, min, max); }
G Tensor& clip_(const std::optional<Scalar>& min, const std::optional<Scalar>& max=std::nullopt) const { ATEN(Tensor, "clip_", "", "clip_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)", *this, min, max); return const_cast<Tensor&>(*this); }
G Tensor& clip_(const std::optional<Tensor>& min={}, const std::optional<Tensor>& max={}) const { ATEN(Tensor, "clip_", "Tensor", "clip_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)", *this, min, max); return const_cast<Tensor&>(*this); }
G Tensor cos() const { return ATEN(Tensor, "cos", "", "cos(Tensor self) -> Tensor", *this); }
G Tensor& cos_() const { ATEN(Tensor, "cos_", "", "cos_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor cosh() const { return ATEN(Tensor, "cosh", "", "cosh(Tensor self) -> Tensor", *this); }
G Tensor& cosh_() const { ATEN(Tensor, "cosh_", "", "cosh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor count_nonzero(IntArrayRef dim) const { return ATEN(Tensor, "count_nonzero", "dim_IntList", "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", *this, dim); }
G Tensor count_nonzero(std::optional<int64_t> dim=std::nullopt) const { return ATEN(Tensor, "count_nonzero", "", "count_nonzero(Tensor self, int? dim=None) -> Tensor", *this, dim); }
G Tensor cov(int64_t correction=1, const std::optional<Tensor>& fweights={}, const std::optional<Tensor>& aweights={}) const { return ATEN(Tensor, "cov", "", "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", *this, correction, fweights, aweights); }
G Tensor corrcoef() const { return ATEN(Tensor, "corrcoef", "", "corrcoef(Tensor self) -> Tensor", *this); }
G std::tuple<Tensor,Tensor> cummax(int64_t dim) const { return ATEN(TENSORS(Tensor,Tensor), "cummax", "", "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", *this, dim); }
G std::tuple<Tensor,Tensor> cummin(int64_t dim) const { return ATEN(TENSORS(Tensor,Tensor), "cummin", "", "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", *this, dim); }
G Tensor cumprod(int64_t dim, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "cumprod", "", "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", *this, dim, dtype); }
G Tensor& cumprod_(int64_t dim, std::optional<ScalarType> dtype=std::nullopt) const { ATEN(Tensor, "cumprod_", "", "cumprod_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)", *this, dim, dtype); return const_cast<Tensor&>(*this); }
G Tensor cumsum(int64_t dim, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "cumsum", "", "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", *this, dim, dtype); }
G Tensor& cumsum_(int64_t dim, std::optional<ScalarType> dtype=std::nullopt) const { ATEN(Tensor, "cumsum_", "", "cumsum_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)", *this, dim, dtype); return const_cast<Tensor&>(*this); }
G Tensor diag_embed(int64_t offset=0, int64_t dim1=-2, int64_t dim2=-1) const { return ATEN(Tensor, "diag_embed", "", "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", *this, offset, dim1, dim2); }
G Tensor diagflat(int64_t offset=0) const { return ATEN(Tensor, "diagflat", "", "diagflat(Tensor self, int offset=0) -> Tensor", *this, offset); }
G Tensor diagonal(int64_t offset=0, int64_t dim1=0, int64_t dim2=1) const { return ATEN(Tensor, "diagonal", "", "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", *this, offset, dim1, dim2); }
G Tensor& fill_diagonal_(const Scalar& fill_value, bool wrap=false) const { ATEN(Tensor, "fill_diagonal_", "", "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)", *this, fill_value, wrap); return const_cast<Tensor&>(*this); }
G Tensor diff(int64_t n=1, int64_t dim=-1, const std::optional<Tensor>& prepend={}, const std::optional<Tensor>& append={}) const { return ATEN(Tensor, "diff", "", "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", *this, n, dim, prepend, append); }
G Tensor divide(const Tensor& other) const { return ATEN(Tensor, "divide", "Tensor", "divide.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& divide_(const Tensor& other) const { ATEN(Tensor, "divide_", "Tensor", "divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor divide(const Scalar& other) const { return ATEN(Tensor, "divide", "Scalar", "divide.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& divide_(const Scalar& other) const { ATEN(Tensor, "divide_", "Scalar", "divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor divide(const Tensor& other, std::optional<string_view> rounding_mode) const { return ATEN(Tensor, "divide", "Tensor_mode", "divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", *this, other, rounding_mode); }
G Tensor& divide_(const Tensor& other, std::optional<string_view> rounding_mode) const { ATEN(Tensor, "divide_", "Tensor_mode", "divide_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)", *this, other, rounding_mode); return const_cast<Tensor&>(*this); }
G Tensor divide(const Scalar& other, std::optional<string_view> rounding_mode) const { return ATEN(Tensor, "divide", "Scalar_mode", "divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", *this, other, rounding_mode); }
G Tensor& divide_(const Scalar& other, std::optional<string_view> rounding_mode) const { ATEN(Tensor, "divide_", "Scalar_mode", "divide_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)", *this, other, rounding_mode); return const_cast<Tensor&>(*this); }
G Tensor true_divide(const Tensor& other) const { return ATEN(Tensor, "true_divide", "Tensor", "true_divide.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& true_divide_(const Tensor& other) const { ATEN(Tensor, "true_divide_", "Tensor", "true_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor true_divide(const Scalar& other) const { return ATEN(Tensor, "true_divide", "Scalar", "true_divide.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& true_divide_(const Scalar& other) const { ATEN(Tensor, "true_divide_", "Scalar", "true_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor dot(const Tensor& tensor) const { return ATEN(Tensor, "dot", "", "dot(Tensor self, Tensor tensor) -> Tensor", *this, tensor); }
G Tensor vdot(const Tensor& other) const { return ATEN(Tensor, "vdot", "", "vdot(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor new_empty(IntArrayRef size, TensorOptions options={}) const { return with_grad(ATEN(Tensor, "new_empty", "", "new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", *this, size, options.dtype_, options.layout_, options.device_, options.pinned_memory_), options); }
G Tensor new_empty_strided(IntArrayRef size, IntArrayRef stride, TensorOptions options={}) const { return with_grad(ATEN(Tensor, "new_empty_strided", "", "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", *this, size, stride, options.dtype_, options.layout_, options.device_, options.pinned_memory_), options); }
G Tensor new_full(IntArrayRef size, const Scalar& fill_value, TensorOptions options={}) const { return with_grad(ATEN(Tensor, "new_full", "", "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", *this, size, fill_value, options.dtype_, options.layout_, options.device_, options.pinned_memory_), options); }
G Tensor new_zeros(IntArrayRef size, TensorOptions options={}) const { return with_grad(ATEN(Tensor, "new_zeros", "", "new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", *this, size, options.dtype_, options.layout_, options.device_, options.pinned_memory_), options); }
G Tensor new_ones(IntArrayRef size, TensorOptions options={}) const { return with_grad(ATEN(Tensor, "new_ones", "", "new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", *this, size, options.dtype_, options.layout_, options.device_, options.pinned_memory_), options); }
G Tensor& resize_(IntArrayRef size, std::optional<MemoryFormat> memory_format=std::nullopt) const { ATEN(Tensor, "resize_", "", "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)", *this, size, memory_format); return const_cast<Tensor&>(*this); }
G Tensor erf() const { return ATEN(Tensor, "erf", "", "erf(Tensor self) -> Tensor", *this); }
G Tensor& erf_() const { ATEN(Tensor, "erf_", "", "erf_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor erfc() const { return ATEN(Tensor, "erfc", "", "erfc(Tensor self) -> Tensor", *this); }
G Tensor& erfc_() const { ATEN(Tensor, "erfc_", "", "erfc_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor exp() const { return ATEN(Tensor, "exp", "", "exp(Tensor self) -> Tensor", *this); }
G Tensor& exp_() const { ATEN(Tensor, "exp_", "", "exp_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor exp2() const { return ATEN(Tensor, "exp2", "", "exp2(Tensor self) -> Tensor", *this); }
G Tensor& exp2_() const { ATEN(Tensor, "exp2_", "", "exp2_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor expm1() const { return ATEN(Tensor, "expm1", "", "expm1(Tensor self) -> Tensor", *this); }
G Tensor& expm1_() const { ATEN(Tensor, "expm1_", "", "expm1_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor expand(IntArrayRef size, bool implicit=false) const { return ATEN(Tensor, "expand", "", "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", *this, size, implicit); }
G Tensor expand_as(const Tensor& other) const { return ATEN(Tensor, "expand_as", "", "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", *this, other); }
G Tensor flatten(int64_t start_dim=0, int64_t end_dim=-1) const { return ATEN(Tensor, "flatten", "using_ints", "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", *this, start_dim, end_dim); }
G Tensor unflatten(int64_t dim, IntArrayRef sizes) const { return ATEN(Tensor, "unflatten", "int", "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", *this, dim, sizes); }
G Tensor floor() const { return ATEN(Tensor, "floor", "", "floor(Tensor self) -> Tensor", *this); }
G Tensor& floor_() const { ATEN(Tensor, "floor_", "", "floor_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor floor_divide(const Tensor& other) const { return ATEN(Tensor, "floor_divide", "", "floor_divide(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& floor_divide_(const Tensor& other) const { ATEN(Tensor, "floor_divide_", "Tensor", "floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor floor_divide(const Scalar& other) const { return ATEN(Tensor, "floor_divide", "Scalar", "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& floor_divide_(const Scalar& other) const { ATEN(Tensor, "floor_divide_", "Scalar", "floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor frac() const { return ATEN(Tensor, "frac", "", "frac(Tensor self) -> Tensor", *this); }
G Tensor& frac_() const { ATEN(Tensor, "frac_", "", "frac_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor gcd(const Tensor& other) const { return ATEN(Tensor, "gcd", "", "gcd(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& gcd_(const Tensor& other) const { ATEN(Tensor, "gcd_", "", "gcd_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor lcm(const Tensor& other) const { return ATEN(Tensor, "lcm", "", "lcm(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& lcm_(const Tensor& other) const { ATEN(Tensor, "lcm_", "", "lcm_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const { ATEN(Tensor, "index_copy_", "", "index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)", *this, dim, index, source); return const_cast<Tensor&>(*this); }
G Tensor isclose(const Tensor& other, double rtol=1e-05, double atol=1e-08, bool equal_nan=false) const { return ATEN(Tensor, "isclose", "", "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor", *this, other, rtol, atol, equal_nan); }
G Tensor isnan() const { return ATEN(Tensor, "isnan", "", "isnan(Tensor self) -> Tensor", *this); }
G bool is_distributed() const { return ATEN(bool, "is_distributed", "", "is_distributed(Tensor self) -> bool", *this); }
G bool is_conj() const { return ATEN(bool, "is_conj", "", "is_conj(Tensor self) -> bool", *this); }
G bool is_neg() const { return ATEN(bool, "is_neg", "", "is_neg(Tensor self) -> bool", *this); }
G Tensor isreal() const { return ATEN(Tensor, "isreal", "", "isreal(Tensor self) -> Tensor", *this); }
G bool is_nonzero() const { return ATEN(bool, "is_nonzero", "", "is_nonzero(Tensor self) -> bool", *this); }
G bool is_signed() const { return ATEN(bool, "is_signed", "", "is_signed(Tensor self) -> bool", *this); }
G bool is_inference() const { return ATEN(bool, "is_inference", "", "is_inference(Tensor self) -> bool", *this); }
G Tensor kron(const Tensor& other) const { return ATEN(Tensor, "kron", "", "kron(Tensor self, Tensor other) -> Tensor", *this, other); }
G std::tuple<Tensor,Tensor> kthvalue(int64_t k, int64_t dim=-1, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "kthvalue", "", "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", *this, k, dim, keepdim); }
G Tensor nan_to_num(std::optional<double> nan=std::nullopt, std::optional<double> posinf=std::nullopt, std::optional<double> neginf=std::nullopt) const { return ATEN(Tensor, "nan_to_num", "", "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", *this, nan, posinf, neginf); }
G Tensor& nan_to_num_(std::optional<double> nan=std::nullopt, std::optional<double> posinf=std::nullopt, std::optional<double> neginf=std::nullopt) const { ATEN(Tensor, "nan_to_num_", "", "nan_to_num_(Tensor(a!) self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor(a!)", *this, nan, posinf, neginf); return const_cast<Tensor&>(*this); }
G Tensor log() const { return ATEN(Tensor, "log", "", "log(Tensor self) -> Tensor", *this); }
G Tensor& log_() const { ATEN(Tensor, "log_", "", "log_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor log10() const { return ATEN(Tensor, "log10", "", "log10(Tensor self) -> Tensor", *this); }
G Tensor& log10_() const { ATEN(Tensor, "log10_", "", "log10_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor log1p() const { return ATEN(Tensor, "log1p", "", "log1p(Tensor self) -> Tensor", *this); }
G Tensor& log1p_() const { ATEN(Tensor, "log1p_", "", "log1p_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor log2() const { return ATEN(Tensor, "log2", "", "log2(Tensor self) -> Tensor", *this); }
G Tensor& log2_() const { ATEN(Tensor, "log2_", "", "log2_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor logaddexp(const Tensor& other) const { return ATEN(Tensor, "logaddexp", "", "logaddexp(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor logaddexp2(const Tensor& other) const { return ATEN(Tensor, "logaddexp2", "", "logaddexp2(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor xlogy(const Tensor& other) const { return ATEN(Tensor, "xlogy", "Tensor", "xlogy.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor xlogy(const Scalar& other) const { return ATEN(Tensor, "xlogy", "Scalar_Other", "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& xlogy_(const Tensor& other) const { ATEN(Tensor, "xlogy_", "Tensor", "xlogy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& xlogy_(const Scalar& other) const { ATEN(Tensor, "xlogy_", "Scalar_Other", "xlogy_.Scalar_Other(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor log_softmax(int64_t dim, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "log_softmax", "int", "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", *this, dim, dtype); }
G Tensor logcumsumexp(int64_t dim) const { return ATEN(Tensor, "logcumsumexp", "", "logcumsumexp(Tensor self, int dim) -> Tensor", *this, dim); }
G Tensor logsumexp(IntArrayRef dim, bool keepdim=false) const { return ATEN(Tensor, "logsumexp", "", "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor matmul(const Tensor& other) const { return ATEN(Tensor, "matmul", "", "matmul(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor matrix_power(int64_t n) const { return ATEN(Tensor, "matrix_power", "", "matrix_power(Tensor self, int n) -> Tensor", *this, n); }
G Tensor matrix_exp() const { return ATEN(Tensor, "matrix_exp", "", "matrix_exp(Tensor self) -> Tensor", *this); }
G std::tuple<Tensor,Tensor> aminmax(std::optional<int64_t> dim=std::nullopt, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "aminmax", "", "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", *this, dim, keepdim); }
G std::tuple<Tensor,Tensor> max(int64_t dim, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "max", "dim", "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", *this, dim, keepdim); }
G Tensor amax(IntArrayRef dim={}, bool keepdim=false) const { return ATEN(Tensor, "amax", "", "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor mean(std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "mean", "", "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", *this, dtype); }
G Tensor mean(OptionalIntArrayRef dim, bool keepdim=false, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "mean", "dim", "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", *this, dim, keepdim, dtype); }
G Tensor nanmean(OptionalIntArrayRef dim=std::nullopt, bool keepdim=false, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "nanmean", "", "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", *this, dim, keepdim, dtype); }
G Tensor median() const { return ATEN(Tensor, "median", "", "median(Tensor self) -> Tensor", *this); }
G std::tuple<Tensor,Tensor> median(int64_t dim, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "median", "dim", "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", *this, dim, keepdim); }
G Tensor nanmedian() const { return ATEN(Tensor, "nanmedian", "", "nanmedian(Tensor self) -> Tensor", *this); }
G std::tuple<Tensor,Tensor> nanmedian(int64_t dim, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "nanmedian", "dim", "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", *this, dim, keepdim); }
G std::tuple<Tensor,Tensor> min(int64_t dim, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "min", "dim", "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", *this, dim, keepdim); }
G Tensor amin(IntArrayRef dim={}, bool keepdim=false) const { return ATEN(Tensor, "amin", "", "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", *this, dim, keepdim); }
G Tensor mm(const Tensor& mat2) const { return ATEN(Tensor, "mm", "", "mm(Tensor self, Tensor mat2) -> Tensor", *this, mat2); }
G std::tuple<Tensor,Tensor> mode(int64_t dim=-1, bool keepdim=false) const { return ATEN(TENSORS(Tensor,Tensor), "mode", "", "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", *this, dim, keepdim); }
G Tensor multiply(const Tensor& other) const { return ATEN(Tensor, "multiply", "Tensor", "multiply.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& multiply_(const Tensor& other) const { ATEN(Tensor, "multiply_", "Tensor", "multiply_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor multiply(const Scalar& other) const { return ATEN(Tensor, "multiply", "Scalar", "multiply.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& multiply_(const Scalar& other) const { ATEN(Tensor, "multiply_", "Scalar", "multiply_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor mv(const Tensor& vec) const { return ATEN(Tensor, "mv", "", "mv(Tensor self, Tensor vec) -> Tensor", *this, vec); }
G Tensor mvlgamma(int64_t p) const { return ATEN(Tensor, "mvlgamma", "", "mvlgamma(Tensor self, int p) -> Tensor", *this, p); }
G Tensor& mvlgamma_(int64_t p) const { ATEN(Tensor, "mvlgamma_", "", "mvlgamma_(Tensor(a!) self, int p) -> Tensor(a!)", *this, p); return const_cast<Tensor&>(*this); }
G Tensor narrow(int64_t dim, int64_t start, int64_t length) const { return ATEN(Tensor, "narrow", "", "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", *this, dim, start, length); }
G Tensor narrow(int64_t dim, const Tensor& start, int64_t length) const { return ATEN(Tensor, "narrow", "Tensor", "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)", *this, dim, start, length); }
G Tensor permute(IntArrayRef dims) const { return ATEN(Tensor, "permute", "", "permute(Tensor(a) self, int[] dims) -> Tensor(a)", *this, dims); }
G Tensor movedim(IntArrayRef source, IntArrayRef destination) const { return ATEN(Tensor, "movedim", "intlist", "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", *this, source, destination); }
G Tensor movedim(int64_t source, int64_t destination) const { return ATEN(Tensor, "movedim", "int", "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", *this, source, destination); }
G Tensor moveaxis(IntArrayRef source, IntArrayRef destination) const { return ATEN(Tensor, "moveaxis", "intlist", "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", *this, source, destination); }
G Tensor moveaxis(int64_t source, int64_t destination) const { return ATEN(Tensor, "moveaxis", "int", "moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)", *this, source, destination); }
G Tensor numpy_T() const { return ATEN(Tensor, "numpy_T", "", "numpy_T(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor matrix_H() const { return ATEN(Tensor, "matrix_H", "", "matrix_H(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor mT() const { return ATEN(Tensor, "mT", "", "mT(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor mH() const { return ATEN(Tensor, "mH", "", "mH(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor adjoint() const { return ATEN(Tensor, "adjoint", "", "adjoint(Tensor(a) self) -> Tensor(a)", *this); }
G bool is_pinned(std::optional<Device> device=std::nullopt) const { return ATEN(bool, "is_pinned", "", "is_pinned(Tensor self, Device? device=None) -> bool", *this, device); }
G Tensor pin_memory(std::optional<Device> device=std::nullopt) const { return ATEN(Tensor, "pin_memory", "", "pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)", *this, device); }
G Tensor pinverse(double rcond=1e-15) const { return ATEN(Tensor, "pinverse", "", "pinverse(Tensor self, float rcond=1e-15) -> Tensor", *this, rcond); }
G Tensor rad2deg() const { return ATEN(Tensor, "rad2deg", "", "rad2deg(Tensor self) -> Tensor", *this); }
G Tensor& rad2deg_() const { ATEN(Tensor, "rad2deg_", "", "rad2deg_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor deg2rad() const { return ATEN(Tensor, "deg2rad", "", "deg2rad(Tensor self) -> Tensor", *this); }
G Tensor& deg2rad_() const { ATEN(Tensor, "deg2rad_", "", "deg2rad_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor ravel() const { return ATEN(Tensor, "ravel", "", "ravel(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor reciprocal() const { return ATEN(Tensor, "reciprocal", "", "reciprocal(Tensor self) -> Tensor", *this); }
G Tensor& reciprocal_() const { ATEN(Tensor, "reciprocal_", "", "reciprocal_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor neg() const { return ATEN(Tensor, "neg", "", "neg(Tensor self) -> Tensor", *this); }
G Tensor& neg_() const { ATEN(Tensor, "neg_", "", "neg_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor negative() const { return ATEN(Tensor, "negative", "", "negative(Tensor self) -> Tensor", *this); }
G Tensor& negative_() const { ATEN(Tensor, "negative_", "", "negative_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor repeat(IntArrayRef repeats) const { return ATEN(Tensor, "repeat", "", "repeat(Tensor self, SymInt[] repeats) -> Tensor", *this, repeats); }
G Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim=std::nullopt, std::optional<int64_t> output_size=std::nullopt) const { return ATEN(Tensor, "repeat_interleave", "self_Tensor", "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", *this, repeats, dim, output_size); }
G Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> dim=std::nullopt, std::optional<int64_t> output_size=std::nullopt) const { return ATEN(Tensor, "repeat_interleave", "self_int", "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", *this, repeats, dim, output_size); }
G Tensor reshape(IntArrayRef shape) const { return ATEN(Tensor, "reshape", "", "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", *this, shape); }
G Tensor reshape_as(const Tensor& other) const { return ATEN(Tensor, "reshape_as", "", "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", *this, other); }
G Tensor round() const { return ATEN(Tensor, "round", "", "round(Tensor self) -> Tensor", *this); }
G Tensor& round_() const { ATEN(Tensor, "round_", "", "round_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor round(int64_t decimals) const { return ATEN(Tensor, "round", "decimals", "round.decimals(Tensor self, *, int decimals) -> Tensor", *this, decimals); }
G Tensor& round_(int64_t decimals) const { ATEN(Tensor, "round_", "decimals", "round_.decimals(Tensor(a!) self, *, int decimals) -> Tensor(a!)", *this, decimals); return const_cast<Tensor&>(*this); }
G Tensor relu() const { return ATEN(Tensor, "relu", "", "relu(Tensor self) -> Tensor", *this); }
G Tensor& relu_() const { ATEN(Tensor, "relu_", "", "relu_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor prelu(const Tensor& weight) const { return ATEN(Tensor, "prelu", "", "prelu(Tensor self, Tensor weight) -> Tensor", *this, weight); }
G Tensor hardshrink(const Scalar& lambd=0.5) const { return ATEN(Tensor, "hardshrink", "", "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", *this, lambd); }
G Tensor hardshrink_backward(const Tensor& grad_out, const Scalar& lambd) const { return ATEN(Tensor, "hardshrink_backward", "", "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", grad_out, *this, lambd); }
G Tensor rsqrt() const { return ATEN(Tensor, "rsqrt", "", "rsqrt(Tensor self) -> Tensor", *this); }
G Tensor& rsqrt_() const { ATEN(Tensor, "rsqrt_", "", "rsqrt_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor select(int64_t dim, int64_t index) const { return ATEN(Tensor, "select", "int", "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", *this, dim, index); }
G Tensor sigmoid() const { return ATEN(Tensor, "sigmoid", "", "sigmoid(Tensor self) -> Tensor", *this); }
G Tensor& sigmoid_() const { ATEN(Tensor, "sigmoid_", "", "sigmoid_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor logit(std::optional<double> eps=std::nullopt) const { return ATEN(Tensor, "logit", "", "logit(Tensor self, float? eps=None) -> Tensor", *this, eps); }
G Tensor& logit_(std::optional<double> eps=std::nullopt) const { ATEN(Tensor, "logit_", "", "logit_(Tensor(a!) self, float? eps=None) -> Tensor(a!)", *this, eps); return const_cast<Tensor&>(*this); }
G Tensor sin() const { return ATEN(Tensor, "sin", "", "sin(Tensor self) -> Tensor", *this); }
G Tensor& sin_() const { ATEN(Tensor, "sin_", "", "sin_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor sinc() const { return ATEN(Tensor, "sinc", "", "sinc(Tensor self) -> Tensor", *this); }
G Tensor& sinc_() const { ATEN(Tensor, "sinc_", "", "sinc_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor sinh() const { return ATEN(Tensor, "sinh", "", "sinh(Tensor self) -> Tensor", *this); }
G Tensor& sinh_() const { ATEN(Tensor, "sinh_", "", "sinh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor detach() const { return ATEN(Tensor, "detach", "", "detach(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor& detach_() const { ATEN(Tensor, "detach_", "", "detach_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor slice(int64_t dim=0, std::optional<int64_t> start=std::nullopt, std::optional<int64_t> end=std::nullopt, int64_t step=1) const { return ATEN(Tensor, "slice", "Tensor", "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", *this, dim, start, end, step); }
G Tensor slice_inverse(const Tensor& src, int64_t dim=0, std::optional<int64_t> start=std::nullopt, std::optional<int64_t> end=std::nullopt, int64_t step=1) const { return ATEN(Tensor, "slice_inverse", "", "slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", *this, src, dim, start, end, step); }
G Tensor slice_scatter(const Tensor& src, int64_t dim=0, std::optional<int64_t> start=std::nullopt, std::optional<int64_t> end=std::nullopt, int64_t step=1) const { return ATEN(Tensor, "slice_scatter", "", "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", *this, src, dim, start, end, step); }
G Tensor select_scatter(const Tensor& src, int64_t dim, int64_t index) const { return ATEN(Tensor, "select_scatter", "", "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", *this, src, dim, index); }
G Tensor diagonal_scatter(const Tensor& src, int64_t offset=0, int64_t dim1=0, int64_t dim2=1) const { return ATEN(Tensor, "diagonal_scatter", "", "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", *this, src, offset, dim1, dim2); }
G Tensor as_strided_scatter(const Tensor& src, IntArrayRef size, IntArrayRef stride, std::optional<int64_t> storage_offset=std::nullopt) const { return ATEN(Tensor, "as_strided_scatter", "", "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor", *this, src, size, stride, storage_offset); }
G Tensor smm(const Tensor& mat2) const { return ATEN(Tensor, "smm", "", "smm(Tensor self, Tensor mat2) -> Tensor", *this, mat2); }
G Tensor softmax(int64_t dim, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "softmax", "int", "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", *this, dim, dtype); }
G std::vector<Tensor> split(int64_t split_size, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "split", "Tensor", "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", *this, split_size, dim); }
G std::vector<Tensor> split(IntArrayRef split_size, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "split", "sizes", "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", *this, split_size, dim); }
G std::vector<Tensor> split_with_sizes(IntArrayRef split_sizes, int64_t dim=0) const { return ATEN(std::vector<Tensor>, "split_with_sizes", "", "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", *this, split_sizes, dim); }
G std::vector<Tensor> hsplit(int64_t sections) const { return ATEN(std::vector<Tensor>, "hsplit", "int", "hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", *this, sections); }
G std::vector<Tensor> hsplit(IntArrayRef indices) const { return ATEN(std::vector<Tensor>, "hsplit", "array", "hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", *this, indices); }
G std::vector<Tensor> vsplit(int64_t sections) const { return ATEN(std::vector<Tensor>, "vsplit", "int", "vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", *this, sections); }
G std::vector<Tensor> vsplit(IntArrayRef indices) const { return ATEN(std::vector<Tensor>, "vsplit", "array", "vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", *this, indices); }
G std::vector<Tensor> dsplit(int64_t sections) const { return ATEN(std::vector<Tensor>, "dsplit", "int", "dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", *this, sections); }
G std::vector<Tensor> dsplit(IntArrayRef indices) const { return ATEN(std::vector<Tensor>, "dsplit", "array", "dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", *this, indices); }
G Tensor squeeze() const { return ATEN(Tensor, "squeeze", "", "squeeze(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor squeeze(int64_t dim) const { return ATEN(Tensor, "squeeze", "dim", "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", *this, dim); }
G Tensor squeeze(IntArrayRef dim) const { return ATEN(Tensor, "squeeze", "dims", "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", *this, dim); }
G Tensor& squeeze_() const { ATEN(Tensor, "squeeze_", "", "squeeze_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor& squeeze_(int64_t dim) const { ATEN(Tensor, "squeeze_", "dim", "squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", *this, dim); return const_cast<Tensor&>(*this); }
G Tensor& squeeze_(IntArrayRef dim) const { ATEN(Tensor, "squeeze_", "dims", "squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", *this, dim); return const_cast<Tensor&>(*this); }
G Tensor sum(std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "sum", "", "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", *this, dtype); }
G Tensor sum(OptionalIntArrayRef dim, bool keepdim=false, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "sum", "dim_IntList", "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", *this, dim, keepdim, dtype); }
G Tensor nansum(OptionalIntArrayRef dim=std::nullopt, bool keepdim=false, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "nansum", "", "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", *this, dim, keepdim, dtype); }
G Tensor hash_tensor(IntArrayRef dim={}, bool keepdim=false, int64_t mode=0) const { return ATEN(Tensor, "hash_tensor", "", "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", *this, dim, keepdim, mode); }
G Tensor sum_to_size(IntArrayRef size) const { return ATEN(Tensor, "sum_to_size", "", "sum_to_size(Tensor self, SymInt[] size) -> Tensor", *this, size); }
G Tensor sqrt() const { return ATEN(Tensor, "sqrt", "", "sqrt(Tensor self) -> Tensor", *this); }
G Tensor& sqrt_() const { ATEN(Tensor, "sqrt_", "", "sqrt_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor square() const { return ATEN(Tensor, "square", "", "square(Tensor self) -> Tensor", *this); }
G Tensor& square_() const { ATEN(Tensor, "square_", "", "square_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor std(bool unbiased) const { return ATEN(Tensor, "std", "", "std(Tensor self, bool unbiased=True) -> Tensor", *this, unbiased); }
G Tensor std(OptionalIntArrayRef dim, bool unbiased, bool keepdim=false) const { return ATEN(Tensor, "std", "dim", "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", *this, dim, unbiased, keepdim); }
G Tensor std(OptionalIntArrayRef dim=std::nullopt, const std::optional<Scalar>& correction=std::nullopt, bool keepdim=false) const { return ATEN(Tensor, "std", "correction", "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", *this, dim, correction, keepdim); }
G Tensor prod(std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "prod", "", "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", *this, dtype); }
G Tensor prod(int64_t dim, bool keepdim=false, std::optional<ScalarType> dtype=std::nullopt) const { return ATEN(Tensor, "prod", "dim_int", "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", *this, dim, keepdim, dtype); }
G Tensor t() const { return ATEN(Tensor, "t", "", "t(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor& t_() const { ATEN(Tensor, "t_", "", "t_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor tan() const { return ATEN(Tensor, "tan", "", "tan(Tensor self) -> Tensor", *this); }
G Tensor& tan_() const { ATEN(Tensor, "tan_", "", "tan_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor tanh() const { return ATEN(Tensor, "tanh", "", "tanh(Tensor self) -> Tensor", *this); }
G Tensor& tanh_() const { ATEN(Tensor, "tanh_", "", "tanh_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor tile(IntArrayRef dims) const { return ATEN(Tensor, "tile", "", "tile(Tensor self, SymInt[] dims) -> Tensor", *this, dims); }
G Tensor transpose(int64_t dim0, int64_t dim1) const { return ATEN(Tensor, "transpose", "int", "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", *this, dim0, dim1); }
G Tensor& transpose_(int64_t dim0, int64_t dim1) const { ATEN(Tensor, "transpose_", "", "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", *this, dim0, dim1); return const_cast<Tensor&>(*this); }
G Tensor flip(IntArrayRef dims) const { return ATEN(Tensor, "flip", "", "flip(Tensor self, int[] dims) -> Tensor", *this, dims); }
G Tensor fliplr() const { return ATEN(Tensor, "fliplr", "", "fliplr(Tensor self) -> Tensor", *this); }
G Tensor flipud() const { return ATEN(Tensor, "flipud", "", "flipud(Tensor self) -> Tensor", *this); }
G Tensor roll(IntArrayRef shifts, IntArrayRef dims={}) const { return ATEN(Tensor, "roll", "", "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", *this, shifts, dims); }
G Tensor rot90(int64_t k=1, IntArrayRef dims={0,1}) const { return ATEN(Tensor, "rot90", "", "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", *this, k, dims); }
G Tensor trunc() const { return ATEN(Tensor, "trunc", "", "trunc(Tensor self) -> Tensor", *this); }
G Tensor& trunc_() const { ATEN(Tensor, "trunc_", "", "trunc_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor fix() const { return ATEN(Tensor, "fix", "", "fix(Tensor self) -> Tensor", *this); }
G Tensor& fix_() const { ATEN(Tensor, "fix_", "", "fix_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor unsqueeze(int64_t dim) const { return ATEN(Tensor, "unsqueeze", "", "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", *this, dim); }
G Tensor& unsqueeze_(int64_t dim) const { ATEN(Tensor, "unsqueeze_", "", "unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", *this, dim); return const_cast<Tensor&>(*this); }
G Tensor var(bool unbiased) const { return ATEN(Tensor, "var", "", "var(Tensor self, bool unbiased=True) -> Tensor", *this, unbiased); }
G Tensor var(OptionalIntArrayRef dim, bool unbiased, bool keepdim=false) const { return ATEN(Tensor, "var", "dim", "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", *this, dim, unbiased, keepdim); }
G Tensor var(OptionalIntArrayRef dim=std::nullopt, const std::optional<Scalar>& correction=std::nullopt, bool keepdim=false) const { return ATEN(Tensor, "var", "correction", "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", *this, dim, correction, keepdim); }
G Tensor view_as(const Tensor& other) const { return ATEN(Tensor, "view_as", "", "view_as(Tensor(a) self, Tensor other) -> Tensor(a)", *this, other); }
G Tensor where(const Tensor& condition, const Tensor& other) const { return ATEN(Tensor, "where", "self", "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", condition, *this, other); }
G Tensor where(const Tensor& condition, const Scalar& other) const { return ATEN(Tensor, "where", "ScalarOther", "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", condition, *this, other); }
G Tensor norm(const std::optional<Scalar>& p, ScalarType dtype) const { return ATEN(Tensor, "norm", "ScalarOpt_dtype", "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", *this, p, dtype); }
G Tensor norm(const Scalar& p=2) const { return ATEN(Tensor, "norm", "Scalar", "norm.Scalar(Tensor self, Scalar p=2) -> Tensor", *this, p); }
G Tensor norm(const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype) const { return ATEN(Tensor, "norm", "ScalarOpt_dim_dtype", "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor", *this, p, dim, keepdim, dtype); }
G Tensor norm(const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim=false) const { return ATEN(Tensor, "norm", "ScalarOpt_dim", "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", *this, p, dim, keepdim); }
G std::tuple<Tensor,Tensor> frexp() const { return ATEN(TENSORS(Tensor,Tensor), "frexp", "Tensor", "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", *this); }
G Tensor clone(std::optional<MemoryFormat> memory_format=std::nullopt) const { return ATEN(Tensor, "clone", "", "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", *this, memory_format); }
G Tensor positive() const { return ATEN(Tensor, "positive", "", "positive(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor& resize_as_(const Tensor& the_template, std::optional<MemoryFormat> memory_format=std::nullopt) const { ATEN(Tensor, "resize_as_", "", "resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)", *this, the_template, memory_format); return const_cast<Tensor&>(*this); }
G Tensor& zero_() const { ATEN(Tensor, "zero_", "", "zero_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor subtract(const Tensor& other, const Scalar& alpha=1) const { return ATEN(Tensor, "subtract", "Tensor", "subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", *this, other, alpha); }
G Tensor& subtract_(const Tensor& other, const Scalar& alpha=1) const { ATEN(Tensor, "subtract_", "Tensor", "subtract_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", *this, other, alpha); return const_cast<Tensor&>(*this); }
G Tensor subtract(const Scalar& other, const Scalar& alpha=1) const { return ATEN(Tensor, "subtract", "Scalar", "subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", *this, other, alpha); }
G Tensor& subtract_(const Scalar& other, const Scalar& alpha=1) const { ATEN(Tensor, "subtract_", "Scalar", "subtract_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)", *this, other, alpha); return const_cast<Tensor&>(*this); }
G Tensor heaviside(const Tensor& values) const { return ATEN(Tensor, "heaviside", "", "heaviside(Tensor self, Tensor values) -> Tensor", *this, values); }
G Tensor& heaviside_(const Tensor& values) const { ATEN(Tensor, "heaviside_", "", "heaviside_(Tensor(a!) self, Tensor values) -> Tensor(a!)", *this, values); return const_cast<Tensor&>(*this); }
G Tensor addmm(const Tensor& mat1, const Tensor& mat2, const Scalar& beta=1, const Scalar& alpha=1) const { return ATEN(Tensor, "addmm", "", "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", *this, mat1, mat2, beta, alpha); }
G Tensor& addmm_(const Tensor& mat1, const Tensor& mat2, const Scalar& beta=1, const Scalar& alpha=1) const { ATEN(Tensor, "addmm_", "", "addmm_(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)", *this, mat1, mat2, beta, alpha); return const_cast<Tensor&>(*this); }
G int64_t dense_dim() const { return ATEN(int64_t, "dense_dim", "", "dense_dim(Tensor self) -> int", *this); }
G std::vector<Tensor> unbind(int64_t dim=0) const { return ATEN(std::vector<Tensor>, "unbind", "int", "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", *this, dim); }
G Tensor& masked_fill_(const Tensor& mask, const Scalar& value) const { ATEN(Tensor, "masked_fill_", "Scalar", "masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)", *this, mask, value); return const_cast<Tensor&>(*this); }
G Tensor masked_fill(const Tensor& mask, const Scalar& value) const { return ATEN(Tensor, "masked_fill", "Scalar", "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", *this, mask, value); }
G Tensor& masked_fill_(const Tensor& mask, const Tensor& value) const { ATEN(Tensor, "masked_fill_", "Tensor", "masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)", *this, mask, value); return const_cast<Tensor&>(*this); }
G Tensor masked_fill(const Tensor& mask, const Tensor& value) const { return ATEN(Tensor, "masked_fill", "Tensor", "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", *this, mask, value); }
G Tensor& masked_scatter_(const Tensor& mask, const Tensor& source) const { ATEN(Tensor, "masked_scatter_", "", "masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)", *this, mask, source); return const_cast<Tensor&>(*this); }
G Tensor masked_scatter(const Tensor& mask, const Tensor& source) const { return ATEN(Tensor, "masked_scatter", "", "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", *this, mask, source); }
G Tensor view(IntArrayRef size) const { return ATEN(Tensor, "view", "", "view(Tensor(a) self, SymInt[] size) -> Tensor(a)", *this, size); }
G Tensor view(ScalarType dtype) const { return ATEN(Tensor, "view", "dtype", "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", *this, dtype); }
G Tensor& put_(const Tensor& index, const Tensor& source, bool accumulate=false) const { ATEN(Tensor, "put_", "", "put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!)", *this, index, source, accumulate); return const_cast<Tensor&>(*this); }
G Tensor put(const Tensor& index, const Tensor& source, bool accumulate=false) const { return ATEN(Tensor, "put", "", "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", *this, index, source, accumulate); }
G Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha=1) const { ATEN(Tensor, "index_add_", "", "index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)", *this, dim, index, source, alpha); return const_cast<Tensor&>(*this); }
G Tensor index_add(int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha=1) const { return ATEN(Tensor, "index_add", "", "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", *this, dim, index, source, alpha); }
G Tensor& index_reduce_(int64_t dim, const Tensor& index, const Tensor& source, string_view reduce, bool include_self=true) const { ATEN(Tensor, "index_reduce_", "", "index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor(a!)", *this, dim, index, source, reduce, include_self); return const_cast<Tensor&>(*this); }
G Tensor index_reduce(int64_t dim, const Tensor& index, const Tensor& source, string_view reduce, bool include_self=true) const { return ATEN(Tensor, "index_reduce", "", "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor", *this, dim, index, source, reduce, include_self); }
G Tensor& index_fill_(int64_t dim, const Tensor& index, const Scalar& value) const { ATEN(Tensor, "index_fill_", "int_Scalar", "index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", *this, dim, index, value); return const_cast<Tensor&>(*this); }
G Tensor index_fill(int64_t dim, const Tensor& index, const Scalar& value) const { return ATEN(Tensor, "index_fill", "int_Scalar", "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", *this, dim, index, value); }
G Tensor& index_fill_(int64_t dim, const Tensor& index, const Tensor& value) const { ATEN(Tensor, "index_fill_", "int_Tensor", "index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)", *this, dim, index, value); return const_cast<Tensor&>(*this); }
G Tensor index_fill(int64_t dim, const Tensor& index, const Tensor& value) const { return ATEN(Tensor, "index_fill", "int_Tensor", "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", *this, dim, index, value); }
G Tensor scatter(int64_t dim, const Tensor& index, const Tensor& src) const { return ATEN(Tensor, "scatter", "src", "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", *this, dim, index, src); }
G Tensor& scatter_(int64_t dim, const Tensor& index, const Tensor& src) const { ATEN(Tensor, "scatter_", "src", "scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", *this, dim, index, src); return const_cast<Tensor&>(*this); }
G Tensor scatter(int64_t dim, const Tensor& index, const Scalar& value) const { return ATEN(Tensor, "scatter", "value", "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", *this, dim, index, value); }
G Tensor& scatter_(int64_t dim, const Tensor& index, const Scalar& value) const { ATEN(Tensor, "scatter_", "value", "scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", *this, dim, index, value); return const_cast<Tensor&>(*this); }
G Tensor scatter(int64_t dim, const Tensor& index, const Tensor& src, string_view reduce) const { return ATEN(Tensor, "scatter", "reduce", "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", *this, dim, index, src, reduce); }
G Tensor& scatter_(int64_t dim, const Tensor& index, const Tensor& src, string_view reduce) const { ATEN(Tensor, "scatter_", "reduce", "scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)", *this, dim, index, src, reduce); return const_cast<Tensor&>(*this); }
G Tensor scatter(int64_t dim, const Tensor& index, const Scalar& value, string_view reduce) const { return ATEN(Tensor, "scatter", "value_reduce", "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor", *this, dim, index, value, reduce); }
G Tensor& scatter_(int64_t dim, const Tensor& index, const Scalar& value, string_view reduce) const { ATEN(Tensor, "scatter_", "value_reduce", "scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor(a!)", *this, dim, index, value, reduce); return const_cast<Tensor&>(*this); }
G Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& src) const { return ATEN(Tensor, "scatter_add", "", "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", *this, dim, index, src); }
G Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& src) const { ATEN(Tensor, "scatter_add_", "", "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", *this, dim, index, src); return const_cast<Tensor&>(*this); }
G Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, string_view reduce, bool include_self=true) const { return ATEN(Tensor, "scatter_reduce", "two", "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor", *this, dim, index, src, reduce, include_self); }
G Tensor& scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& src, string_view reduce, bool include_self=true) const { ATEN(Tensor, "scatter_reduce_", "two", "scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor(a!)", *this, dim, index, src, reduce, include_self); return const_cast<Tensor&>(*this); }
G Tensor& eq_(const Scalar& other) const { ATEN(Tensor, "eq_", "Scalar", "eq_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& eq_(const Tensor& other) const { ATEN(Tensor, "eq_", "Tensor", "eq_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_and(const Scalar& other) const { return ATEN(Tensor, "bitwise_and", "Scalar", "bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor bitwise_and(const Tensor& other) const { return ATEN(Tensor, "bitwise_and", "Tensor", "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& bitwise_and_(const Scalar& other) const { ATEN(Tensor, "bitwise_and_", "Scalar", "bitwise_and_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& bitwise_and_(const Tensor& other) const { ATEN(Tensor, "bitwise_and_", "Tensor", "bitwise_and_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_or(const Scalar& other) const { return ATEN(Tensor, "bitwise_or", "Scalar", "bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor bitwise_or(const Tensor& other) const { return ATEN(Tensor, "bitwise_or", "Tensor", "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& bitwise_or_(const Scalar& other) const { ATEN(Tensor, "bitwise_or_", "Scalar", "bitwise_or_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& bitwise_or_(const Tensor& other) const { ATEN(Tensor, "bitwise_or_", "Tensor", "bitwise_or_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_xor(const Scalar& other) const { return ATEN(Tensor, "bitwise_xor", "Scalar", "bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor bitwise_xor(const Tensor& other) const { return ATEN(Tensor, "bitwise_xor", "Tensor", "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& bitwise_xor_(const Scalar& other) const { ATEN(Tensor, "bitwise_xor_", "Scalar", "bitwise_xor_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& bitwise_xor_(const Tensor& other) const { ATEN(Tensor, "bitwise_xor_", "Tensor", "bitwise_xor_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_left_shift(const Tensor& other) const { return ATEN(Tensor, "bitwise_left_shift", "Tensor", "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& bitwise_left_shift_(const Tensor& other) const { ATEN(Tensor, "bitwise_left_shift_", "Tensor", "bitwise_left_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_left_shift(const Scalar& other) const { return ATEN(Tensor, "bitwise_left_shift", "Tensor_Scalar", "bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& bitwise_left_shift_(const Scalar& other) const { ATEN(Tensor, "bitwise_left_shift_", "Tensor_Scalar", "bitwise_left_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_right_shift(const Tensor& other) const { return ATEN(Tensor, "bitwise_right_shift", "Tensor", "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& bitwise_right_shift_(const Tensor& other) const { ATEN(Tensor, "bitwise_right_shift_", "Tensor", "bitwise_right_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor bitwise_right_shift(const Scalar& other) const { return ATEN(Tensor, "bitwise_right_shift", "Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& bitwise_right_shift_(const Scalar& other) const { ATEN(Tensor, "bitwise_right_shift_", "Tensor_Scalar", "bitwise_right_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& tril_(int64_t diagonal=0) const { ATEN(Tensor, "tril_", "", "tril_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)", *this, diagonal); return const_cast<Tensor&>(*this); }
G Tensor& triu_(int64_t diagonal=0) const { ATEN(Tensor, "triu_", "", "triu_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)", *this, diagonal); return const_cast<Tensor&>(*this); }
G Tensor& digamma_() const { ATEN(Tensor, "digamma_", "", "digamma_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor& lerp_(const Tensor& end, const Scalar& weight) const { ATEN(Tensor, "lerp_", "Scalar", "lerp_.Scalar(Tensor(a!) self, Tensor end, Scalar weight) -> Tensor(a!)", *this, end, weight); return const_cast<Tensor&>(*this); }
G Tensor& lerp_(const Tensor& end, const Tensor& weight) const { ATEN(Tensor, "lerp_", "Tensor", "lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> Tensor(a!)", *this, end, weight); return const_cast<Tensor&>(*this); }
G Tensor& addbmm_(const Tensor& batch1, const Tensor& batch2, const Scalar& beta=1, const Scalar& alpha=1) const { ATEN(Tensor, "addbmm_", "", "addbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)", *this, batch1, batch2, beta, alpha); return const_cast<Tensor&>(*this); }
G Tensor addbmm(const Tensor& batch1, const Tensor& batch2, const Scalar& beta=1, const Scalar& alpha=1) const { return ATEN(Tensor, "addbmm", "", "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", *this, batch1, batch2, beta, alpha); }
G Tensor& random_(int64_t from, std::optional<int64_t> to, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "random_", "from", "random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)", *this, from, to, generator); return const_cast<Tensor&>(*this); }
G Tensor& random_(int64_t to, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "random_", "to", "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)", *this, to, generator); return const_cast<Tensor&>(*this); }
G Tensor& random_(std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "random_", "", "random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)", *this, generator); return const_cast<Tensor&>(*this); }
G Tensor& uniform_(double from=0, double to=1, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "uniform_", "", "uniform_(Tensor(a!) self, float from=0, float to=1, *, Generator? generator=None) -> Tensor(a!)", *this, from, to, generator); return const_cast<Tensor&>(*this); }
G Tensor& cauchy_(double median=0, double sigma=1, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "cauchy_", "", "cauchy_(Tensor(a!) self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor(a!)", *this, median, sigma, generator); return const_cast<Tensor&>(*this); }
G Tensor& log_normal_(double mean=1, double std=2, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "log_normal_", "", "log_normal_(Tensor(a!) self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor(a!)", *this, mean, std, generator); return const_cast<Tensor&>(*this); }
G Tensor& exponential_(double lambd=1, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "exponential_", "", "exponential_(Tensor(a!) self, float lambd=1, *, Generator? generator=None) -> Tensor(a!)", *this, lambd, generator); return const_cast<Tensor&>(*this); }
G Tensor& geometric_(double p, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "geometric_", "", "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)", *this, p, generator); return const_cast<Tensor&>(*this); }
G Tensor diag(int64_t diagonal=0) const { return ATEN(Tensor, "diag", "", "diag(Tensor self, int diagonal=0) -> Tensor", *this, diagonal); }
G Tensor cross(const Tensor& other, std::optional<int64_t> dim=std::nullopt) const { return ATEN(Tensor, "cross", "", "cross(Tensor self, Tensor other, int? dim=None) -> Tensor", *this, other, dim); }
G Tensor triu(int64_t diagonal=0) const { return ATEN(Tensor, "triu", "", "triu(Tensor self, SymInt diagonal=0) -> Tensor", *this, diagonal); }
G Tensor tril(int64_t diagonal=0) const { return ATEN(Tensor, "tril", "", "tril(Tensor self, SymInt diagonal=0) -> Tensor", *this, diagonal); }
G Tensor trace() const { return ATEN(Tensor, "trace", "", "trace(Tensor self) -> Tensor", *this); }
G Tensor& ne_(const Scalar& other) const { ATEN(Tensor, "ne_", "Scalar", "ne_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& ne_(const Tensor& other) const { ATEN(Tensor, "ne_", "Tensor", "ne_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor not_equal(const Scalar& other) const { return ATEN(Tensor, "not_equal", "Scalar", "not_equal.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor not_equal(const Tensor& other) const { return ATEN(Tensor, "not_equal", "Tensor", "not_equal.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& not_equal_(const Scalar& other) const { ATEN(Tensor, "not_equal_", "Scalar", "not_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& not_equal_(const Tensor& other) const { ATEN(Tensor, "not_equal_", "Tensor", "not_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& ge_(const Scalar& other) const { ATEN(Tensor, "ge_", "Scalar", "ge_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& ge_(const Tensor& other) const { ATEN(Tensor, "ge_", "Tensor", "ge_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor greater_equal(const Scalar& other) const { return ATEN(Tensor, "greater_equal", "Scalar", "greater_equal.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor greater_equal(const Tensor& other) const { return ATEN(Tensor, "greater_equal", "Tensor", "greater_equal.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& greater_equal_(const Scalar& other) const { ATEN(Tensor, "greater_equal_", "Scalar", "greater_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& greater_equal_(const Tensor& other) const { ATEN(Tensor, "greater_equal_", "Tensor", "greater_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& le_(const Scalar& other) const { ATEN(Tensor, "le_", "Scalar", "le_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& le_(const Tensor& other) const { ATEN(Tensor, "le_", "Tensor", "le_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor less_equal(const Scalar& other) const { return ATEN(Tensor, "less_equal", "Scalar", "less_equal.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor less_equal(const Tensor& other) const { return ATEN(Tensor, "less_equal", "Tensor", "less_equal.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& less_equal_(const Scalar& other) const { ATEN(Tensor, "less_equal_", "Scalar", "less_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& less_equal_(const Tensor& other) const { ATEN(Tensor, "less_equal_", "Tensor", "less_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& gt_(const Scalar& other) const { ATEN(Tensor, "gt_", "Scalar", "gt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& gt_(const Tensor& other) const { ATEN(Tensor, "gt_", "Tensor", "gt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor greater(const Scalar& other) const { return ATEN(Tensor, "greater", "Scalar", "greater.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor greater(const Tensor& other) const { return ATEN(Tensor, "greater", "Tensor", "greater.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& greater_(const Scalar& other) const { ATEN(Tensor, "greater_", "Scalar", "greater_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& greater_(const Tensor& other) const { ATEN(Tensor, "greater_", "Tensor", "greater_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& lt_(const Scalar& other) const { ATEN(Tensor, "lt_", "Scalar", "lt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& lt_(const Tensor& other) const { ATEN(Tensor, "lt_", "Tensor", "lt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor less(const Scalar& other) const { return ATEN(Tensor, "less", "Scalar", "less.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor less(const Tensor& other) const { return ATEN(Tensor, "less", "Tensor", "less.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& less_(const Scalar& other) const { ATEN(Tensor, "less_", "Scalar", "less_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor& less_(const Tensor& other) const { ATEN(Tensor, "less_", "Tensor", "less_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor take(const Tensor& index) const { return ATEN(Tensor, "take", "", "take(Tensor self, Tensor index) -> Tensor", *this, index); }
G Tensor take_along_dim(const Tensor& indices, std::optional<int64_t> dim=std::nullopt) const { return ATEN(Tensor, "take_along_dim", "", "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", *this, indices, dim); }
G Tensor index_select(int64_t dim, const Tensor& index) const { return ATEN(Tensor, "index_select", "", "index_select(Tensor self, int dim, Tensor index) -> Tensor", *this, dim, index); }
G Tensor masked_select(const Tensor& mask) const { return ATEN(Tensor, "masked_select", "", "masked_select(Tensor self, Tensor mask) -> Tensor", *this, mask); }
G Tensor nonzero() const { return ATEN(Tensor, "nonzero", "", "nonzero(Tensor self) -> Tensor", *this); }
G Tensor nonzero_static(int64_t size, int64_t fill_value=-1) const { return ATEN(Tensor, "nonzero_static", "", "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", *this, size, fill_value); }
G std::vector<Tensor> nonzero_numpy() const { return ATEN(std::vector<Tensor>, "nonzero_numpy", "", "nonzero_numpy(Tensor self) -> Tensor[]", *this); }
G Tensor argwhere() const { return ATEN(Tensor, "argwhere", "", "argwhere(Tensor self) -> Tensor", *this); }
G Tensor gather(int64_t dim, const Tensor& index, bool sparse_grad=false) const { return ATEN(Tensor, "gather", "", "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", *this, dim, index, sparse_grad); }
G Tensor addcmul(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value=1) const { return ATEN(Tensor, "addcmul", "", "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", *this, tensor1, tensor2, value); }
G Tensor& addcmul_(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value=1) const { ATEN(Tensor, "addcmul_", "", "addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)", *this, tensor1, tensor2, value); return const_cast<Tensor&>(*this); }
G Tensor addcdiv(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value=1) const { return ATEN(Tensor, "addcdiv", "", "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", *this, tensor1, tensor2, value); }
G Tensor& addcdiv_(const Tensor& tensor1, const Tensor& tensor2, const Scalar& value=1) const { ATEN(Tensor, "addcdiv_", "", "addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)", *this, tensor1, tensor2, value); return const_cast<Tensor&>(*this); }
G std::tuple<Tensor,Tensor> triangular_solve(const Tensor& A, bool upper=true, bool transpose=false, bool unitriangular=false) const { return ATEN(TENSORS(Tensor,Tensor), "triangular_solve", "", "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)", *this, A, upper, transpose, unitriangular); }
G std::tuple<Tensor,Tensor,Tensor> svd(bool some=true, bool compute_uv=true) const { return ATEN(TENSORS(Tensor,Tensor,Tensor), "svd", "", "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", *this, some, compute_uv); }
G Tensor swapaxes(int64_t axis0, int64_t axis1) const { return ATEN(Tensor, "swapaxes", "", "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", *this, axis0, axis1); }
G Tensor& swapaxes_(int64_t axis0, int64_t axis1) const { ATEN(Tensor, "swapaxes_", "", "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)", *this, axis0, axis1); return const_cast<Tensor&>(*this); }
G Tensor swapdims(int64_t dim0, int64_t dim1) const { return ATEN(Tensor, "swapdims", "", "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", *this, dim0, dim1); }
G Tensor& swapdims_(int64_t dim0, int64_t dim1) const { ATEN(Tensor, "swapdims_", "", "swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", *this, dim0, dim1); return const_cast<Tensor&>(*this); }
G Tensor cholesky_solve(const Tensor& input2, bool upper=false) const { return ATEN(Tensor, "cholesky_solve", "", "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", *this, input2, upper); }
G Tensor cholesky_inverse(bool upper=false) const { return ATEN(Tensor, "cholesky_inverse", "", "cholesky_inverse(Tensor self, bool upper=False) -> Tensor", *this, upper); }
G std::tuple<Tensor,Tensor> geqrf() const { return ATEN(TENSORS(Tensor,Tensor), "geqrf", "", "geqrf(Tensor self) -> (Tensor a, Tensor tau)", *this); }
G Tensor orgqr(const Tensor& input2) const { return ATEN(Tensor, "orgqr", "", "orgqr(Tensor self, Tensor input2) -> Tensor", *this, input2); }
G Tensor ormqr(const Tensor& input2, const Tensor& input3, bool left=true, bool transpose=false) const { return ATEN(Tensor, "ormqr", "", "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", *this, input2, input3, left, transpose); }
G Tensor lu_solve(const Tensor& LU_data, const Tensor& LU_pivots) const { return ATEN(Tensor, "lu_solve", "", "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", *this, LU_data, LU_pivots); }
G Tensor multinomial(int64_t num_samples, bool replacement=false, std::optional<Generator> generator=std::nullopt) const { return ATEN(Tensor, "multinomial", "", "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", *this, num_samples, replacement, generator); }
G Tensor& lgamma_() const { ATEN(Tensor, "lgamma_", "", "lgamma_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor lgamma() const { return ATEN(Tensor, "lgamma", "", "lgamma(Tensor self) -> Tensor", *this); }
G Tensor digamma() const { return ATEN(Tensor, "digamma", "", "digamma(Tensor self) -> Tensor", *this); }
G Tensor polygamma(int64_t n) const { return ATEN(Tensor, "polygamma", "", "polygamma(int n, Tensor self) -> Tensor", n, *this); }
G Tensor& polygamma_(int64_t n) const { ATEN(Tensor, "polygamma_", "", "polygamma_(Tensor(a!) self, int n) -> Tensor(a!)", *this, n); return const_cast<Tensor&>(*this); }
G Tensor erfinv() const { return ATEN(Tensor, "erfinv", "", "erfinv(Tensor self) -> Tensor", *this); }
G Tensor& erfinv_() const { ATEN(Tensor, "erfinv_", "", "erfinv_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor i0() const { return ATEN(Tensor, "i0", "", "i0(Tensor self) -> Tensor", *this); }
G Tensor& i0_() const { ATEN(Tensor, "i0_", "", "i0_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor sign() const { return ATEN(Tensor, "sign", "", "sign(Tensor self) -> Tensor", *this); }
G Tensor& sign_() const { ATEN(Tensor, "sign_", "", "sign_(Tensor(a!) self) -> Tensor(a!)", *this); return const_cast<Tensor&>(*this); }
G Tensor signbit() const { return ATEN(Tensor, "signbit", "", "signbit(Tensor self) -> Tensor", *this); }
G Tensor dist(const Tensor& other, const Scalar& p=2) const { return ATEN(Tensor, "dist", "", "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", *this, other, p); }
G Tensor& atan2_(const Tensor& other) const { ATEN(Tensor, "atan2_", "", "atan2_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor atan2(const Tensor& other) const { return ATEN(Tensor, "atan2", "", "atan2(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor arctan2(const Tensor& other) const { return ATEN(Tensor, "arctan2", "", "arctan2(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& arctan2_(const Tensor& other) const { ATEN(Tensor, "arctan2_", "", "arctan2_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor lerp(const Tensor& end, const Scalar& weight) const { return ATEN(Tensor, "lerp", "Scalar", "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", *this, end, weight); }
G Tensor lerp(const Tensor& end, const Tensor& weight) const { return ATEN(Tensor, "lerp", "Tensor", "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", *this, end, weight); }
G Tensor histc(int64_t bins=100, const Scalar& min=0, const Scalar& max=0) const { return ATEN(Tensor, "histc", "", "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", *this, bins, min, max); }
G Tensor fmod(const Scalar& other) const { return ATEN(Tensor, "fmod", "Scalar", "fmod.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& fmod_(const Scalar& other) const { ATEN(Tensor, "fmod_", "Scalar", "fmod_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor fmod(const Tensor& other) const { return ATEN(Tensor, "fmod", "Tensor", "fmod.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& fmod_(const Tensor& other) const { ATEN(Tensor, "fmod_", "Tensor", "fmod_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor hypot(const Tensor& other) const { return ATEN(Tensor, "hypot", "", "hypot(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& hypot_(const Tensor& other) const { ATEN(Tensor, "hypot_", "", "hypot_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor igamma(const Tensor& other) const { return ATEN(Tensor, "igamma", "", "igamma(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& igamma_(const Tensor& other) const { ATEN(Tensor, "igamma_", "", "igamma_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor igammac(const Tensor& other) const { return ATEN(Tensor, "igammac", "", "igammac(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& igammac_(const Tensor& other) const { ATEN(Tensor, "igammac_", "", "igammac_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor nextafter(const Tensor& other) const { return ATEN(Tensor, "nextafter", "", "nextafter(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& nextafter_(const Tensor& other) const { ATEN(Tensor, "nextafter_", "", "nextafter_(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor remainder(const Scalar& other) const { return ATEN(Tensor, "remainder", "Scalar", "remainder.Scalar(Tensor self, Scalar other) -> Tensor", *this, other); }
G Tensor& remainder_(const Scalar& other) const { ATEN(Tensor, "remainder_", "Scalar", "remainder_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor remainder(const Tensor& other) const { return ATEN(Tensor, "remainder", "Tensor", "remainder.Tensor(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor& remainder_(const Tensor& other) const { ATEN(Tensor, "remainder_", "Tensor", "remainder_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", *this, other); return const_cast<Tensor&>(*this); }
G Tensor min() const { return ATEN(Tensor, "min", "", "min(Tensor self) -> Tensor", *this); }
G Tensor fmin(const Tensor& other) const { return ATEN(Tensor, "fmin", "", "fmin(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor max() const { return ATEN(Tensor, "max", "", "max(Tensor self) -> Tensor", *this); }
G Tensor fmax(const Tensor& other) const { return ATEN(Tensor, "fmax", "", "fmax(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor maximum(const Tensor& other) const { return ATEN(Tensor, "maximum", "", "maximum(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor max(const Tensor& other) const { return ATEN(Tensor, "max", "other", "max.other(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor minimum(const Tensor& other) const { return ATEN(Tensor, "minimum", "", "minimum(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor min(const Tensor& other) const { return ATEN(Tensor, "min", "other", "min.other(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor quantile(const Tensor& q, std::optional<int64_t> dim=std::nullopt, bool keepdim=false, string_view interpolation="linear") const { return ATEN(Tensor, "quantile", "", "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor", *this, q, dim, keepdim, interpolation); }
G Tensor quantile(double q, std::optional<int64_t> dim=std::nullopt, bool keepdim=false, string_view interpolation="linear") const { return ATEN(Tensor, "quantile", "scalar", "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor", *this, q, dim, keepdim, interpolation); }
G Tensor nanquantile(const Tensor& q, std::optional<int64_t> dim=std::nullopt, bool keepdim=false, string_view interpolation="linear") const { return ATEN(Tensor, "nanquantile", "", "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor", *this, q, dim, keepdim, interpolation); }
G Tensor nanquantile(double q, std::optional<int64_t> dim=std::nullopt, bool keepdim=false, string_view interpolation="linear") const { return ATEN(Tensor, "nanquantile", "scalar", "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor", *this, q, dim, keepdim, interpolation); }
G std::tuple<Tensor,Tensor> sort(int64_t dim=-1, bool descending=false) const { return ATEN(TENSORS(Tensor,Tensor), "sort", "", "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", *this, dim, descending); }
G std::tuple<Tensor,Tensor> sort(std::optional<bool> stable, int64_t dim=-1, bool descending=false) const { return ATEN(TENSORS(Tensor,Tensor), "sort", "stable", "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", *this, stable, dim, descending); }
G Tensor msort() const { return ATEN(Tensor, "msort", "", "msort(Tensor self) -> Tensor", *this); }
G Tensor argsort(int64_t dim=-1, bool descending=false) const { return ATEN(Tensor, "argsort", "", "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", *this, dim, descending); }
G Tensor argsort(bool stable, int64_t dim=-1, bool descending=false) const { return ATEN(Tensor, "argsort", "stable", "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", *this, stable, dim, descending); }
G std::tuple<Tensor,Tensor> topk(int64_t k, int64_t dim=-1, bool largest=true, bool sorted=true) const { return ATEN(TENSORS(Tensor,Tensor), "topk", "", "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", *this, k, dim, largest, sorted); }
G Tensor all() const { return ATEN(Tensor, "all", "", "all(Tensor self) -> Tensor", *this); }
G Tensor any() const { return ATEN(Tensor, "any", "", "any(Tensor self) -> Tensor", *this); }
G Tensor renorm(const Scalar& p, int64_t dim, const Scalar& maxnorm) const { return ATEN(Tensor, "renorm", "", "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", *this, p, dim, maxnorm); }
G Tensor& renorm_(const Scalar& p, int64_t dim, const Scalar& maxnorm) const { ATEN(Tensor, "renorm_", "", "renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!)", *this, p, dim, maxnorm); return const_cast<Tensor&>(*this); }
G Tensor unfold(int64_t dimension, int64_t size, int64_t step) const { return ATEN(Tensor, "unfold", "", "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", *this, dimension, size, step); }
G bool equal(const Tensor& other) const { return ATEN(bool, "equal", "", "equal(Tensor self, Tensor other) -> bool", *this, other); }
G Tensor pow(const Tensor& exponent) const { return ATEN(Tensor, "pow", "Tensor_Tensor", "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", *this, exponent); }
G Tensor pow(const Scalar& exponent) const { return ATEN(Tensor, "pow", "Tensor_Scalar", "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", *this, exponent); }
G Tensor& pow_(const Scalar& exponent) const { ATEN(Tensor, "pow_", "Scalar", "pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)", *this, exponent); return const_cast<Tensor&>(*this); }
G Tensor& pow_(const Tensor& exponent) const { ATEN(Tensor, "pow_", "Tensor", "pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)", *this, exponent); return const_cast<Tensor&>(*this); }
G Tensor float_power(const Tensor& exponent) const { return ATEN(Tensor, "float_power", "Tensor_Tensor", "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", *this, exponent); }
G Tensor float_power(const Scalar& exponent) const { return ATEN(Tensor, "float_power", "Tensor_Scalar", "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", *this, exponent); }
G Tensor& float_power_(const Scalar& exponent) const { ATEN(Tensor, "float_power_", "Scalar", "float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)", *this, exponent); return const_cast<Tensor&>(*this); }
G Tensor& float_power_(const Tensor& exponent) const { ATEN(Tensor, "float_power_", "Tensor", "float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)", *this, exponent); return const_cast<Tensor&>(*this); }
G Tensor& normal_(double mean=0, double std=1, std::optional<Generator> generator=std::nullopt) const { ATEN(Tensor, "normal_", "", "normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor(a!)", *this, mean, std, generator); return const_cast<Tensor&>(*this); }
G Tensor alias() const { return ATEN(Tensor, "alias", "", "alias(Tensor(a) self) -> Tensor(a)", *this); }
G Tensor isfinite() const { return ATEN(Tensor, "isfinite", "", "isfinite(Tensor self) -> Tensor", *this); }
G Tensor isinf() const { return ATEN(Tensor, "isinf", "", "isinf(Tensor self) -> Tensor", *this); }
G Tensor isposinf() const { return ATEN(Tensor, "isposinf", "", "isposinf(Tensor self) -> Tensor", *this); }
G Tensor isneginf() const { return ATEN(Tensor, "isneginf", "", "isneginf(Tensor self) -> Tensor", *this); }
G Tensor det() const { return ATEN(Tensor, "det", "", "det(Tensor self) -> Tensor", *this); }
G std::tuple<Tensor,Tensor> slogdet() const { return ATEN(TENSORS(Tensor,Tensor), "slogdet", "", "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", *this); }
G Tensor logdet() const { return ATEN(Tensor, "logdet", "", "logdet(Tensor self) -> Tensor", *this); }
G Tensor inverse() const { return ATEN(Tensor, "inverse", "", "inverse(Tensor self) -> Tensor", *this); }
G Tensor inner(const Tensor& other) const { return ATEN(Tensor, "inner", "", "inner(Tensor self, Tensor other) -> Tensor", *this, other); }
G Tensor outer(const Tensor& vec2) const { return ATEN(Tensor, "outer", "", "outer(Tensor self, Tensor vec2) -> Tensor", *this, vec2); }
G Tensor ger(const Tensor& vec2) const { return ATEN(Tensor, "ger", "", "ger(Tensor self, Tensor vec2) -> Tensor", *this, vec2); }
