(function_declaration name: (identifier) @name body: (_) @body) @def.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @owner
    (pointer_type (type_identifier) @owner)
    (generic_type type: (type_identifier) @owner)
    (pointer_type (generic_type type: (type_identifier) @owner))]))
  name: (field_identifier) @name body: (_) @body) @def.method
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.class
(type_spec name: (type_identifier) @name type: (interface_type) @body) @def.interface
(type_spec name: (type_identifier) @name) @def.type
(type_alias name: (type_identifier) @name) @def.type
(method_elem name: (field_identifier) @name) @def.method
(field_declaration (field_identifier) @name) @def.field
(source_file (const_declaration (const_spec (identifier) @name) @def.constant))
(source_file (var_declaration (var_spec (identifier) @name) @def.variable))
(source_file (var_declaration (var_spec_list (var_spec (identifier) @name) @def.variable)))

(import_spec) @import

(call_expression function: (identifier) @call)
(call_expression function: (selector_expression operand: (_) @receiver field: (field_identifier) @call))
(composite_literal type: (type_identifier) @call)
(composite_literal type: (qualified_type package: (_) @receiver name: (type_identifier) @call))
(field_declaration !name type: (type_identifier) @inherit)
(field_declaration !name type: (qualified_type package: (_) @receiver name: (type_identifier) @inherit))
(interface_type (type_elem (type_identifier) @inherit))
(parameter_declaration type: (type_identifier) @type)
(parameter_declaration type: (pointer_type (type_identifier) @type))
(field_declaration name: (_) type: (type_identifier) @type)
(field_declaration name: (_) type: (pointer_type (type_identifier) @type))
(var_spec type: (type_identifier) @type)
(function_declaration result: (type_identifier) @type)
(qualified_type package: (_) @receiver name: (type_identifier) @type)
