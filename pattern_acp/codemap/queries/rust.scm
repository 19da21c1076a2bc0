(struct_item name: (type_identifier) @name body: (_)? @body) @def.class
(union_item name: (type_identifier) @name body: (_) @body) @def.class
(enum_item name: (type_identifier) @name body: (_) @body) @def.enum
(trait_item name: (type_identifier) @name body: (_) @body) @def.interface
(impl_item type: [
  (type_identifier) @name
  (generic_type type: (type_identifier) @name)
  (scoped_type_identifier name: (type_identifier) @name)]) @scope
(mod_item name: (identifier) @name body: (_) @body) @def.module
(function_item name: (identifier) @name body: (_) @body) @def.function
(function_signature_item name: (identifier) @name) @def.function
(type_item name: (type_identifier) @name) @def.type
(associated_type name: (type_identifier) @name) @def.type
(const_item name: (identifier) @name) @def.constant
(static_item name: (identifier) @name) @def.variable
(macro_definition name: (identifier) @name) @def.macro
(field_declaration name: (field_identifier) @name) @def.field

(use_declaration) @import
(mod_item !body) @import
(extern_crate_declaration) @import

(call_expression function: (identifier) @call)
(call_expression function: (scoped_identifier path: (_) @receiver name: (identifier) @call))
(call_expression function: (field_expression value: (_) @receiver field: (field_identifier) @call))
(call_expression function: (generic_function function: (identifier) @call))
(call_expression function: (generic_function function: (scoped_identifier path: (_) @receiver name: (identifier) @call)))
(call_expression function: (generic_function function: (field_expression value: (_) @receiver field: (_) @call)))
(macro_invocation macro: (identifier) @call)
(struct_expression name: (type_identifier) @call)
(impl_item trait: (type_identifier) @inherit)
(impl_item trait: (generic_type type: (type_identifier) @inherit))
(impl_item trait: (scoped_type_identifier path: (_) @receiver name: (type_identifier) @inherit))
(trait_bounds (type_identifier) @type)
(parameter type: (type_identifier) @type)
(parameter type: (reference_type type: (type_identifier) @type))
(generic_type type: (type_identifier) @type)
(type_arguments (type_identifier) @type)
(field_declaration type: (type_identifier) @type)
(function_item return_type: (type_identifier) @type)
